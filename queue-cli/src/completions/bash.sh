# Completes commands, options, and names that the broker has: {bin} prints what may follow.
{function}_complete() {
    local line=${COMP_LINE:0:COMP_POINT} words word kept found
    read -a words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    word=${words[${#words[@]} - 1]}
    # Bash replaces only the part after the last `:`, `=` or `@`.
    kept=${word%"${word##*["${COMP_WORDBREAKS//[^:=@]/}"]}"}
    COMPREPLY=()
    while IFS= read -r found; do
        found=${found%%$'\t'*}
        # The name follows its queue.
        [[ $found == */ ]] && compopt -o nospace 2> /dev/null
        COMPREPLY+=("$(printf %q "${found#"$kept"}")")
    done < <("$1" __complete "${words[@]:1}" 2> /dev/null)
}
complete -o default -F {function}_complete {bin}
