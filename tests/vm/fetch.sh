# Fetches the kernel that tests/vm boots: Debian's cloud kernel, extracted and never installed. ./setup runs
# it, so that the tests need no network. Quick when it is there.
#
#   bash tests/vm/fetch.sh           fetch it if it is not there
#   bash tests/vm/fetch.sh --check   only say whether it is there
#
# Prints its folder: vmlinuz, release, and modules/, those that the guest needs.
# Exit: 0 it is there; 1 it could not be fetched; 3 this system has none to offer.
#
#   STRATA_VM_CACHE=DIR   where it is kept; default: build/vm
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
export LC_ALL=C
cache=${STRATA_VM_CACHE:-$PWD/build/vm}
wanted=linux-image-cloud-amd64
# A disk, for what the guest brings out.
modules=(virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk)

if [[ -e $cache/kernel/vmlinuz ]]; then
	echo "$cache/kernel"
	exit 0
fi
[[ ${1-} != --check ]] || exit 1

say() { echo "fetch: $*" >&2; }

[[ $(uname -m) == x86_64 ]] || { say "the kernel layer is for x86-64 only"; exit 3; }
command -v apt-get dpkg >/dev/null || { say "no apt-get here, which would fetch $wanted"; exit 3; }

# The package that the wanted one stands for.
real() { apt-cache depends "$wanted" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1; }
package=$(real)
if [[ -z $package && $(id -u) == 0 ]]; then
	timeout 120 apt-get update -q >/dev/null 2>&1
	package=$(real)
fi
[[ -n $package ]] || { say "apt knows no $wanted, which Debian has"; exit 3; }

mkdir -p "$cache" || exit 1
folder=$(mktemp -d "$cache/new.XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
download() { log=$(cd "$folder" && timeout 300 apt-get download -q "$package" 2>&1); }
# Lists may be older than what is offered.
download || { [[ $(id -u) == 0 ]] && timeout 120 apt-get update -q >/dev/null 2>&1 && package=$(real) && download; } || {
	say "$package cannot be downloaded: $(tail -n 1 <<<"$log")"
	exit 1
}
dpkg -x "$folder/$package"_*.deb "$folder/all" || exit 1
mkdir -p "$folder/kernel/modules" && cp "$folder"/all/boot/vmlinuz-* "$folder/kernel/vmlinuz" || exit 1
echo "${package#linux-image-}" >"$folder/kernel/release"
for module in "${modules[@]}"; do
	# Some kernels have them built in.
	found=$(find "$folder/all" -name "$module.ko" -print -quit)
	[[ -z $found ]] || cp "$found" "$folder/kernel/modules" || exit 1
done
# Another that fetches at the same time has the same one.
mv -T "$folder/kernel" "$cache/kernel" 2>/dev/null || [[ -e $cache/kernel/vmlinuz ]] || exit 1
echo "$cache/kernel"
