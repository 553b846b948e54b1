# Compiles the command for AArch64, as one file, and prints its path last.
#
#   bash tests/vm/arm64_command.sh TOOLS     TOOLS: what tests/vm/fetch.sh arm64-tools has fetched
#
# Beside the other target folder, so that what is compiled for this machine stays. Debian's compiler is used even where
# there is another one: only for this one the standard library of AArch64 is known to be there.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tools=$(realpath "$1")
target=aarch64-unknown-linux-gnu
out=${STRATA_ARM64_TARGET:-$PWD/target/arm64}
mkdir -p "$out"
printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$tools/rust/usr/lib/x86_64-linux-gnu" "$tools/rust/usr/bin/rustc" >"$out/rustc"
chmod +x "$out/rustc"
RUSTC=$out/rustc CARGO_TARGET_DIR=$out \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static -L native=$tools/lib" \
	CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc CFLAGS_aarch64_unknown_linux_gnu="-I$tools/include" \
	cargo build --offline --locked --quiet --target $target -p strata-static
echo "$out/$target/debug/strata-static"
