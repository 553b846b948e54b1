# Sourced by the gates of the crates, from the root of the repository: how crates and their tests are compiled, once for
# both, into target/tests.
#
# Crates of others are the release's there, so that they are compiled once, too. Cargo shares nothing between profiles:
# it is told to make a release, and tools/clippy-driver, which compiles ours, makes of that what tests are to be.
#
# Whoever types "cargo test" has builds of his own beside them.
export RUSTC_WORKSPACE_WRAPPER=$PWD/tools/clippy-driver
# What helps a second build, which there is none of with CI, makes the first one dearer.
CARGO_INCREMENTAL=$([[ ${CI-} == true ]] && echo 0 || echo 1)
export CARGO_INCREMENTAL
for_tests=(--release --target-dir target/tests --workspace --offline --locked --quiet)

# share_release: what the release has of the crates of others, by its hash, is there for the tests; nothing is copied. By
# one at a time: else two link the same file, of whom one fails, or one takes a folder for whole that the other one fills.
share_release() {
	local folder to from
	flock 8 || return
	for folder in deps build .fingerprint; do
		to=target/tests/release/$folder
		mkdir -p "$to"
		for from in "target/release/$folder"/*; do
			[[ ! -e $from || $from == *strata* || -e $to/${from##*/} ]] || cp -al "$from" "$to" || return
		done
	done
} 8>target/tests/.lock

# build_all FLAG...: the tests of all crates, and their examples. Programs are what the release has: gate/rust_lint
# looks at what the compiler said of them without their tests.
build_all() { mkdir -p target/tests && share_release && cargo build "${for_tests[@]}" --tests --examples "$@"; }
