# Sourced first, by tests that must not meet other instrumented processes and other tracers of the machine:
# runs the test anew in PID and mount namespaces of its own, with a /run of its own. $isolated: 1, it is.
isolated=${STRATA_TEST_ISOLATED-}
if [[ -z $isolated ]]; then
	as=(unshare --pid --mount --fork --mount-proc --kill-child)
	[[ $(id -u) == 0 ]] || as+=(--user --map-root-user)
	if "${as[@]}" mount -t tmpfs none /run 2>/dev/null; then
		exec "${as[@]}" env STRATA_TEST_ISOLATED=1 bash -c 'mount -t tmpfs none /run && exec "$0" "$@"' \
			"$0" "$@"
	fi
	echo "not isolated: no namespaces here"
fi
unset STRATA_TEST_ISOLATED
