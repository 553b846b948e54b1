(( $+functions[_strata_words] )) ||
_strata_words() {
    local -a names
    # The first of $words is the subcommand here.
    names=(${(f)"$(${service:-strata} $@ 2>/dev/null)"})
    compadd -a names
}
(( $+functions[_strata_events] )) ||
_strata_events() {
    compset -P '*,'
    compset -P '!'
    _strata_words list -k --names
}
(( $+functions[_strata_tracepoints] )) ||
_strata_tracepoints() {
    _strata_words list -u --names
}
(( $+functions[_strata_sessions] )) ||
_strata_sessions() {
    _strata_words list --sessions --names
}
(( $+functions[_strata_is_kernel] )) ||
_strata_is_kernel() {
    (( ${+opt_args[-k]} || ${+opt_args[--kernel]} ))
}
(( $+functions[_strata_rules] )) ||
_strata_rules() {
    if _strata_is_kernel; then _strata_events; else _strata_tracepoints; fi
}
(( $+functions[_strata_traces] )) ||
_strata_traces() {
    local -a traces
    traces=(*/metadata(N:h) */*/metadata(N:h:h) */*/*/metadata(N:h:h:h) *.data(N.))
    traces=(${(u)traces})
    [[ -z $PREFIX && $#traces -gt 0 ]] && compadd -a traces && return
    _files
}
(( $+functions[_strata_named] )) ||
_strata_named() {
    if _strata_is_kernel; then _strata_events; else _strata_sessions; _strata_traces; fi
}
