# Shared by the tests that attack: sourced, with $0 the test. One user of the machine against what root, or another
# user, records. Runs the test anew in PID and mount namespaces of its own, with a /run of its own, and makes users
# that only these know: the machine's own are not touched.
#
#   "${as_mallory[@]}" COMMAND...   as the user who attacks, whose number is $uid_mallory
#   "${as_alice[@]}" COMMAND...     as one who does not, $uid_alice
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
is_root || skip "only root can become the users that attack"
need setpriv unshare
isolate "$@"
[[ -n ${STRATA_TEST_ALONE-} ]] || skip "no namespaces here: the attacks would meet the machine's other programs"
chmod 755 "$scratch"

# make_user NAME: its number is in $uid_NAME.
make_user() {
	local number=61001
	while cut -d : -f 3,4 "$scratch/passwd" "$scratch/group" | tr : '\n' | grep -qx "$number"; do
		number=$((number + 1))
	done
	echo "strata-$1:x:$number:$number:attacks on Strata:/nonexistent:/bin/sh" >>"$scratch/passwd"
	echo "strata-$1:x:$number:" >>"$scratch/group"
	declare -g "uid_$1=$number"
	# A folder of its own.
	install -d -m 700 -o "$number" -g "$number" "$scratch/$1"
}
cp /etc/passwd /etc/group "$scratch/"
make_user mallory
make_user alice
chmod 644 "$scratch/passwd" "$scratch/group"
mount --bind "$scratch/passwd" /etc/passwd && mount --bind "$scratch/group" /etc/group ||
	fail "the users cannot be made"

as_mallory=(setpriv --reuid="$uid_mallory" --regid="$uid_mallory" --init-groups
	env -u XDG_RUNTIME_DIR HOME=/nonexistent)
as_alice=(setpriv --reuid="$uid_alice" --regid="$uid_alice" --init-groups
	env -u XDG_RUNTIME_DIR HOME=/nonexistent)

# for_all FILE [MODE]: a copy that every user may run, printed.
for_all() {
	install -m "${2-755}" "$1" "$scratch/$(basename "$1")"
	echo "$scratch/$(basename "$1")"
}

# set_user_id_works: programs of root's that others run have root's rights here.
set_user_id_works() { ! findmnt -n -o OPTIONS -T "$scratch" 2>/dev/null | grep -qw nosuid; }

# new_trace: as that of ../lib.sh, with counts that every user's programs may add to.
eval "of_one_user_$(declare -f new_trace)"
new_trace() {
	of_one_user_new_trace
	chmod 666 "$counts"
}
