# Fetches a kernel that tests/vm boots, extracted and never installed. ./setup --tests runs it, so that the tests need
# no network. Quick when it is there.
#
#   bash tests/vm/fetch.sh [--check] [kernel|oldest|arm64|arm64-guest|arm64-tools|headers]
#
#   kernel    Debian's cloud kernel
#   oldest    Ubuntu's 5.15: the oldest kernel with kernel events
#   headers   of the first one, which is there: what a module is compiled with, as src/build
#   arm64     Debian's cloud kernel for AArch64, in which ring/check/guest runs the ring
#   arm64-guest   programs and libraries of Debian that run in it, as a tree of files
#   arm64-tools   what compiles the command for it: Debian's Rust compiler for this machine with the standard libraries of
#             both, in rust/, and libelf and zlib, in include/ and lib/
#   --check   only say whether it is there
#
# Prints its folder: vmlinuz, release, and modules/, those that the guest needs.
# Exit: 0 it is there; 1 it could not be fetched; 3 this system has none to offer.
#
#   STRATA_VM_CACHE=DIR   where they are kept; default: build/vm
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export LC_ALL=C
cache=${STRATA_VM_CACHE:-$PWD/build/vm}
# A disk, for what the guest brings out, a port to the host, and vsock to itself. Some kernels have them built in.
modules=(virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk virtio_console
	vsock vmw_vsock_virtio_transport_common vsock_loopback)

check=false
[[ ${1-} != --check ]] || { check=true && shift; }
which=${1:-kernel}
# The headers are of the very kernel that is there.
[[ $which != headers ]] || {
	release=$(cat "$cache/kernel/release" 2>/dev/null) ||
		{ echo "fetch: no kernel yet whose headers these would be" >&2; exit 1; }
	if [[ $(cat "$cache/headers/release" 2>/dev/null) == "$release" ]]; then
		echo "$cache/headers"
		exit 0
	fi
	! $check || exit 1
}
# ---- packages that are extracted as they are ----
GUEST_PACKAGES=(busybox-static coreutils libacl1 libattr1 libc6 libgcc-s1 libgmp10 liblzma5 libpcre2-8-0 libselinux1 libunwind8
	strace)
if [[ $which == arm64-* && -e $cache/$which/complete ]]; then
	echo "$cache/$which"
	exit 0
fi
# One that was fetched when other modules were wanted is fetched anew.
if [[ -e $cache/$which/vmlinuz && $(cat "$cache/$which/wanted" 2>/dev/null) == "${modules[*]}" ]]; then
	echo "$cache/$which"
	exit 0
fi
! $check || exit 1

say() { echo "fetch: $*" >&2; }

[[ $(uname -m) == x86_64 ]] || { say "virtual machines are made on x86-64 only"; exit 3; }
command -v apt-get dpkg >/dev/null || { say "no apt-get here, which would fetch it"; exit 3; }
mkdir -p "$cache" || exit 1
folder=$(mktemp -d "$cache/new.XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT

# ---- Debian's: the package that another one stands for ----

DEBIAN=linux-image-cloud-amd64
real() { apt-cache depends "$DEBIAN" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1; }
download() { log=$(cd "$folder" && timeout 300 apt-get download -q "$package" 2>&1); }

fetch_kernel() {
	package=$(real)
	if [[ -z $package && $(id -u) == 0 ]]; then
		timeout 120 apt-get update -q >/dev/null 2>&1
		package=$(real)
	fi
	[[ -n $package ]] || { say "apt knows no $DEBIAN, which Debian has"; exit 3; }
	# Lists may be older than what is offered.
	download || { [[ $(id -u) == 0 ]] && timeout 120 apt-get update -q >/dev/null 2>&1 && package=$(real) && download; } || {
		say "$package cannot be downloaded: $(tail -n 1 <<<"$log")"
		exit 1
	}
	release=${package#linux-image-}
}

# ---- the same for AArch64, by an apt that has its own lists: this machine's are not touched ----

of_arm64() {
	APT_CONFIG=$folder/apt.conf "$@"
}

lists_of_arm64() {
	mkdir -p "$folder"/apt/{lists/partial,cache/archives/partial} && : >"$folder/apt/status" || exit 1
	cat >"$folder/apt.conf" <<-END
		APT::Architecture "arm64";
		APT::Architectures { "arm64"; };
		Acquire::Languages "none";
		Dir::State "$folder/apt";
		Dir::State::lists "$folder/apt/lists";
		Dir::State::status "$folder/apt/status";
		Dir::Cache "$folder/apt/cache";
	END
	log=$(of_arm64 timeout 300 apt-get update -q 2>&1)
}

fetch_arm64() {
	local log
	lists_of_arm64
	DEBIAN=linux-image-cloud-arm64
	package=$(of_arm64 real)
	[[ -n $package ]] || { say "apt knows no $DEBIAN, which Debian has: $(tail -n 1 <<<"$log")"; exit 3; }
	of_arm64 download || { say "$package cannot be downloaded: $(tail -n 1 <<<"$log")"; exit 1; }
	release=${package#linux-image-}
}

# into FOLDER [of_arm64] PACKAGE...: each downloaded and extracted.
into() {
	local to=$1 by=() log file
	mkdir -p "$to" || exit 1
	shift
	[[ $1 != of_arm64 ]] || { by=(of_arm64) && shift; }
	for package; do
		file=$(mktemp -d "$folder/one.XXXXXX") || exit 1
		log=$(cd "$file" && "${by[@]}" timeout 300 apt-get download -q "$package" 2>&1) && dpkg -x "$file"/*.deb "$to" || {
			say "$package cannot be downloaded: $(tail -n 1 <<<"$log")"
			exit 1
		}
	done
}

fetch_arm64-guest() {
	local log
	lists_of_arm64
	into "$folder/kernel" of_arm64 "${GUEST_PACKAGES[@]}"
	rm -rf "$folder/kernel/usr/share"
}

# depends PACKAGE REGEX: the packages that it needs and that match.
depends() { apt-cache depends "$1" 2>/dev/null | sed -n "s/^ *Depends: \($2\)\$/\1/p"; }

fetch_arm64-tools() {
	local log web= version std llvm files to=$folder/kernel
	[[ -z $(apt-cache search --names-only '^rustc-web$' 2>/dev/null) ]] || web=-web
	version=$(apt-cache policy "rustc$web" | sed -n 's/^ *Candidate: //p')
	std=$(depends "libstd-rust$web-dev" "libstd-rust$web-[0-9].*" | tail -n 1)
	llvm=$(depends "$std" 'libllvm[0-9.]*' | tail -n 1)
	[[ -n $version && -n $std && -n $llvm ]] || { say "apt knows no rustc that compiles for AArch64, which Debian has"; exit 3; }
	lists_of_arm64
	into "$to/rust" "rustc$web=$version" "libstd-rust$web-dev=$version" "$std=$version" "$llvm"
	into "$to/rust" of_arm64 "libstd-rust$web-dev=$version"
	into "$folder/files" of_arm64 libelf-dev zlib1g-dev
	files=$folder/files/usr
	mkdir -p "$to"/{include,lib} && cp "$files"/include/{libelf,gelf,nlist,zlib,zconf}.h "$to/include" &&
		cp "$files"/lib/aarch64-linux-gnu/lib{elf,z}.a "$to/lib" || exit 1
}

# ---- Ubuntu's 5.15, as 22.04 was released: these files do not change any more ----

readonly OLDEST=5.15.0-25 POOL=http://archive.ubuntu.com/ubuntu/pool/main/l

# one PLACE PACKAGE SHA256
one() {
	local file=$2-$OLDEST-generic_$OLDEST.25_amd64.deb log
	log=$(timeout 120 /usr/lib/apt/apt-helper -o Acquire::Retries=1 -o Acquire::http::Timeout=20 \
		download-file "$POOL/$1/$file" "$folder/$file" "SHA256:$3" 2>&1) && return
	say "$file cannot be downloaded: $(grep -v '^W:' <<<"$log" | tail -n 1)"
	exit 1
}

fetch_oldest() {
	[[ -x /usr/lib/apt/apt-helper ]] || { say "no apt-helper here, which would fetch it"; exit 3; }
	one linux-signed linux-image ad56f8c442a54d4f5ff2dff010d00321d53e32b543f3a92f3ba4e042d20a71da
	one linux linux-modules d0ba4087d9e1d497925b3481d3531fba6c2a852855f8019d73b0b1385aa4da1f
	release=$OLDEST-generic
}

# ---- headers: moved out of /usr/src, where one of their files says that they are ----

fetch_headers() {
	local log names
	names=$(apt-cache depends "linux-headers-$release" 2>/dev/null |
		sed -n 's/^ *Depends: \(linux-headers-.*-common\|linux-kbuild-.*\)/\1/p')
	[[ -n $names ]] || { say "apt knows no linux-headers-$release any more: rm -r $cache/kernel, and fetch it anew"; exit 1; }
	for package in "linux-headers-$release" $names; do
		download || { [[ $(id -u) == 0 ]] && timeout 120 apt-get update -q >/dev/null 2>&1 && download; } || {
			say "$package cannot be downloaded: $(tail -n 1 <<<"$log")"
			exit 1
		}
	done
}

"fetch_$which" || exit 1
if [[ $which == arm64-* ]]; then
	: >"$folder/kernel/complete" || exit 1
	[[ ! -e $cache/$which ]] || mv -T "$cache/$which" "$folder/before"
	mv -T "$folder/kernel" "$cache/$which" 2>/dev/null || [[ -e $cache/$which/complete ]] || exit 1
	echo "$cache/$which"
	exit 0
fi
for package in "$folder"/*.deb; do
	dpkg -x "$package" "$folder/all" || { say "$(basename "$package") cannot be unpacked"; exit 1; }
done
if [[ $which == headers ]]; then
	mv "$folder/all/usr" "$folder/kernel" && mv "$folder/kernel/src/linux-headers-$release" "$folder/kernel/src/build" &&
		echo "include \$(dir \$(lastword \$(MAKEFILE_LIST)))../$(basename "$folder"/kernel/src/linux-headers-*-common)/Makefile" \
			>"$folder/kernel/src/build/Makefile" && echo "$release" >"$folder/kernel/release" || exit 1
	[[ ! -e $cache/headers ]] || mv -T "$cache/headers" "$folder/before"
	mv -T "$folder/kernel" "$cache/headers" 2>/dev/null || [[ -e $cache/headers/release ]] || exit 1
	echo "$cache/headers"
	exit 0
fi
mkdir -p "$folder/kernel/modules" && cp "$folder"/all/boot/vmlinuz-* "$folder/kernel/vmlinuz" || exit 1
echo "$release" >"$folder/kernel/release"
for module in "${modules[@]}"; do
	found=$(find "$folder/all" -name "$module.ko" -print -quit)
	[[ -z $found ]] || cp "$found" "$folder/kernel/modules" || exit 1
done
echo "${modules[*]}" >"$folder/kernel/wanted"
[[ ! -e $cache/$which/vmlinuz || $(cat "$cache/$which/wanted" 2>/dev/null) == "${modules[*]}" ]] ||
	mv -T "$cache/$which" "$folder/before"
# Another that fetches at the same time has the same one.
mv -T "$folder/kernel" "$cache/$which" 2>/dev/null || [[ -e $cache/$which/vmlinuz ]] || exit 1
echo "$cache/$which"
