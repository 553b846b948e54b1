# Values that are asked of strata itself: sessions, events, tracepoints and traces. Returns 1 for anything else.
_strata_values() {
    local strata=${COMP_WORDS[0]} verb=${COMP_WORDS[1]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
    local is_kernel= is_user= i
    ((COMP_CWORD > 1)) || return 1
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            -k|--kernel) is_kernel=1 ;;
            -u|--user|--userspace) is_user=1 ;;
        esac
    done
    case $verb:$before in
        record:-k|record:--kernel|count:-k|count:--kernel|install-boot:-k|install-boot:--kernel) _strata_events "$word"; return ;;
        record:-u|record:--user|install-boot:-u|install-boot:--user) _strata_tracepoints; return ;;
        *:-s|*:--session) _strata_words "$word" list --sessions --names; return ;;
    esac
    [[ $word != -* ]] || return 1
    case $verb in
        list|enable-event|disable-event|add-trigger)
            if [[ -n $is_kernel && ( $before != -* || $before == -k || $before == --kernel ) ]]; then
                _strata_events "$word"
                return
            elif [[ -n $is_user && $verb != list ]]; then
                _strata_tracepoints
                return
            fi ;;
    esac
    [[ $before != -* ]] || return 1
    case $verb in
        start|stop|destroy|status|top|snapshot|rotate|settle|save)
            _strata_words "$word" list --sessions --names ;;
        view|stats|export)
            _strata_traces "$word" ;;
        analyze)
            ((COMP_CWORD > 2)) && _strata_traces "$word" ;;
        list)
            _strata_traces "$word"
            local -a traces=("${COMPREPLY[@]}")
            _strata_words "$word" list --sessions --names
            COMPREPLY+=("${traces[@]}")
            ((${#COMPREPLY[@]})) ;;
        *) return 1 ;;
    esac
}

_strata_words() {
    mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" "${@:2}" 2>/dev/null)" -- "$1")
}

# Rules are separated by commas: the last one is completed.
_strata_events() {
    local front= last=${1##*,}
    [[ $1 != *,* ]] || front=${1%,*},
    if [[ $last == !* ]]; then
        front+=!
        last=${last#!}
    fi
    mapfile -t COMPREPLY < <(compgen -P "$front" -W "$("${COMP_WORDS[0]}" list -k --names 2>/dev/null)" -- "$last")
}

# PROVIDER:EVENT is several words for bash, which replaces the last one.
_strata_tracepoints() {
    local typed=${COMP_LINE:0:COMP_POINT} front=
    typed=${typed##*[\ \']}
    [[ $typed != *:* || $COMP_WORDBREAKS != *:* ]] || front=${typed%"${typed##*:}"}
    _strata_words "$typed" list -u --names
    COMPREPLY=("${COMPREPLY[@]#"$front"}")
}

# Folders that are traces, or have some below them, and files of perf.
_strata_traces() {
    local folder
    COMPREPLY=()
    while IFS= read -r folder; do
        if [[ -e $folder/metadata ]] || compgen -G "$folder/*/metadata" >/dev/null ||
            compgen -G "$folder/*/*/metadata" >/dev/null; then
            COMPREPLY+=("$folder")
        fi
    done < <(compgen -d -- "$1")
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -X '!*.data' -- "$1")
    ((${#COMPREPLY[@]})) || return 1
    compopt -o filenames 2>/dev/null || true
}

_strata_or_values() {
    _strata_values || _strata "$@"
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _strata_or_values -o nosort -o bashdefault -o default strata
else
    complete -F _strata_or_values -o bashdefault -o default strata
fi
