# Sourced by the gates of the crates, from the root of the repository: how crates and their tests are compiled, once for
# both. Each crate is compiled by clippy's driver, which is the compiler, too: what it has to say is an error.
#
# Whoever types "cargo test" has builds of his own beside them, in the same folder.
if command -v clippy-driver >/dev/null; then
	export RUSTC_WORKSPACE_WRAPPER=$PWD/tools/clippy-driver
fi
# What helps a second build, which there is none of, makes the first one dearer.
if [[ ${CI-} == true ]]; then
	export CARGO_INCREMENTAL=0
fi

# build_all FLAG...: all that there is of all crates: libraries, programs, and tests of either.
build_all() { cargo build --workspace --all-targets --offline --locked --quiet "$@"; }
