# Completes commands, options, and names that the broker has: {bin} prints what may follow.
function __{function}_complete
    set -l words (commandline -opc)
    set -l program $words[1]
    set -e words[1]
    set -l found (command $program __complete $words (commandline -ct) 2> /dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command {bin} --no-files --arguments '(__{function}_complete)'
