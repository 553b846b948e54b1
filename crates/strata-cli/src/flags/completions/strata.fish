function __strata_events
    set -l word (commandline -ct)
    set -l front (string match -r '^(?:.*,)?!?' -- $word)
    for name in (strata list -k --names 2>/dev/null)
        echo $front$name
    end
end

function __strata_sessions
    strata list --sessions --names 2>/dev/null
end

function __strata_tracepoints
    strata list -u --names 2>/dev/null
end

# Folders that are traces, or have some below them.
function __strata_traces
    for folder in (__fish_complete_directories (commandline -ct) '')
        set -l name (string split -f 1 \t -- $folder)
        set -l metadata $name/metadata $name/*/metadata $name/*/*/metadata
        for one in $metadata
            test -e $one; and echo $name; and break
        end
    end
end

complete -c strata -n "__fish_seen_subcommand_from record count install-boot" -s k -l kernel -x -a "(__strata_events)"
complete -c strata -n "__fish_seen_subcommand_from record install-boot" -s u -l user -x -a "(__strata_tracepoints)"
complete -c strata -n "__fish_seen_subcommand_from list enable-event disable-event add-trigger; and __fish_contains_opt -s k kernel" -f -a "(__strata_events)"
complete -c strata -n "__fish_seen_subcommand_from enable-event disable-event add-trigger; and __fish_contains_opt -s u user" -f -a "(__strata_tracepoints)"
complete -c strata -n "__fish_contains_opt -s s session; or __fish_prev_arg_in -s --session" -l session -s s -x -a "(__strata_sessions)"
complete -c strata -n "__fish_seen_subcommand_from start stop destroy status top snapshot rotate settle save list" -f -a "(__strata_sessions)"
complete -c strata -n "__fish_seen_subcommand_from view stats analyze export list" -a "(__strata_traces)"
