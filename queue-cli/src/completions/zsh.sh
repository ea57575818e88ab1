#compdef {bin}
# Completes commands, options, and names that the broker has: {bin} prints what may follow.
_{function}() {
    local -a whole queues
    local line
    for line in "${(@f)$("${(@Q)words[1]}" __complete "${(@Q)words[2,CURRENT]}" 2> /dev/null)}"; do
        [[ -n $line ]] || continue
        line=${${line//:/\\:}/$'\t'/:}
        # The name follows its queue.
        if [[ ${line%%:*} == */ ]]; then queues+=("$line"); else whole+=("$line"); fi
    done
    if (( $#whole + $#queues == 0 )); then
        _files
        return
    fi
    (( $#queues )) && _describe queue queues -S ''
    (( $#whole )) && _describe value whole
}
if [[ $funcstack[1] == _{function} ]]; then
    _{function} "$@"
else
    compdef _{function} {bin}
fi
