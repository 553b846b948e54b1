"""Names and lines of code beside llvm-symbolizer's, in files of real compilers in every form of debug information that they write.

Usage: debug_names.py STRATA FOLDER [FORM...]. For each form, `strata view --debug-info` names addresses of one program. What it
says must be what llvm-symbolizer says, or less: a frame or a line that is missing, and never another one.
Exit: 0 so; 1 not.
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from share import ALL, todays, told  # noqa: E402

STRATA, FOLDER = sys.argv[1:3]
BASE = 0x7F0000000000
# Addresses in each file that are asked for, at most.
MOST = 120

HEADER = """static inline __attribute__((always_inline)) int innermost(int number)
{
	if (number & 1)
		number = number * 31 + 7;
	sink += number;
	return number ^ sink;
}
"""
SOURCE = """volatile int sink;
#include "calls.h"
static inline __attribute__((always_inline)) int middle(int number)
{
	int at, sum = 0;
	for (at = 0; at < 3; at++)
		sum += innermost(number + at);
	return sum;
}
static inline __attribute__((always_inline)) int upper(int number)
{
	return middle(number) + innermost(number * 3);
}
__attribute__((noinline)) int of_this_file(int number)
{
	return upper(number) - 1;
}
__attribute__((noinline)) static int hidden(int number)
{
	sink = number;
	return middle(sink + 1);
}
__attribute__((noinline, cold)) int rarely(int number)
{
	sink -= innermost(number);
	return sink;
}
"""
MAIN = """int main(int count, char **words)
{
	if (count > 3)
		return rarely(count);
	return of_this_file(count) + hidden(words[0][0]) > 77;
}
"""
CXX = """#include <vector>
#include <string>
namespace shop {
template <typename T> struct Order {
	T number;
	__attribute__((noinline)) T total(const std::vector<T> &prices) const
	{
		T sum = number;
		for (const T &price : prices)
			sum += upper(price);
		return sum;
	}
	virtual ~Order() {}
	virtual __attribute__((noinline)) T virtually(T other) { return middle(other) + number; }
};
}
__attribute__((noinline)) int of_lambda(int number)
{
	auto twice = [&](int other) { return innermost(other) * 2 + number; };
	return twice(number) + twice(number + 1);
}
int main(int count, char **)
{
	shop::Order<int> order{};
	std::vector<int> prices(count, 4);
	return order.total(prices) + order.virtually(of_lambda(count)) > of_this_file(3) + hidden(2) + rarely(1);
}
"""
RUST = """#[inline(always)]
fn innermost(number: u64) -> u64 {
    std::hint::black_box(number).wrapping_mul(31) ^ 7
}
#[inline(always)]
fn upper(number: u64) -> u64 {
    innermost(number) + innermost(number + 1)
}
trait Order {
    fn total(&self) -> u64;
}
struct Shop(u64);
impl Order for Shop {
    #[inline(never)]
    fn total(&self) -> u64 {
        (0..self.0).map(|one| upper(one)).sum()
    }
}
#[inline(never)]
fn generic<T: Order>(of: &T) -> u64 {
    of.total() + upper(3)
}
fn main() {
    let words = std::env::args().count() as u64;
    std::process::exit((generic(&Shop(words)) > 77) as i32);
}
"""
GO = """package main

import "os"

type shop struct{ number int }

func innermost(number int) int { return number*31 ^ 7 }

func upper(number int) int { return innermost(number) + innermost(number+1) }

//go:noinline
func (s *shop) total(of []string) int {
	sum := s.number
	for _, one := range of {
		sum += upper(len(one))
	}
	return sum
}

func main() {
	if (&shop{3}).total(os.Args) > 77 {
		os.Exit(1)
	}
}
"""

# Functions of our own in each file; others are those of libraries.
OURS = ("of_this_file", "hidden", "rarely", "main", "shop", "Shop", "generic", "of_lambda", "total", "virtually")


def c_forms():
    """Commands of C compilers, by the name of the form; and whether all must be known, or less."""
    forms = {}
    for compiler in ("gcc", "clang"):
        for version in (2, 3, 4, 5):
            for level in ("-O0", "-O2"):
                forms[f"{compiler}-dwarf{version}{level}"] = ([compiler, level, f"-gdwarf-{version}"], True)
        plain = [compiler, "-O2", "-g"]
        for version in (3, 4, 5):
            forms[f"{compiler}-dwarf{version}-64bit"] = ([compiler, "-O2", f"-gdwarf-{version}", "-gdwarf64"], True)
        forms[f"{compiler}-sections"] = ([*plain, "-ffunction-sections", "-Wl,--gc-sections"], True)
        forms[f"{compiler}-fixed"] = ([*plain, "-no-pie", "-fno-pie"], True)
        forms[f"{compiler}-shared"] = ([*plain, "-shared", "-fPIC"], True)
        forms[f"{compiler}-strict"] = ([compiler, "-O2", "-gdwarf-4", "-gstrict-dwarf"], True)
        forms[f"{compiler}-gold"] = ([*plain, "-fuse-ld=gold"], True)
        forms[f"{compiler}-32"] = ([*plain, "-m32", "-shared", "-fPIC", "-nostdlib"], True)
        forms[f"{compiler}-little"] = ([compiler, "-O2", "-g1"], False)
        forms[f"{compiler}-none"] = ([compiler, "-O2"], False)
        forms[f"{compiler}-zlib"] = ([*plain, "-gz=zlib", "-Wl,--compress-debug-sections=zlib"], True)
        forms[f"{compiler}-zlib-gnu"] = ([*plain, "-Wl,--compress-debug-sections=zlib-gnu"], True)
        # What is done to a program after it is linked: see AFTER.
        for after in AFTER:
            forms[f"{compiler}-{after}"] = (plain, True)
        for version in (4, 5):
            forms[f"{compiler}-split{version}"] = ([compiler, "-O2", f"-gdwarf-{version}", "-gsplit-dwarf"], True)
            forms[f"{compiler}-split{version}-dwp"] = (forms[f"{compiler}-split{version}"][0], True)
            forms[f"{compiler}-types{version}"] = (
                [compiler, "-O2", f"-gdwarf-{version}", "-fdebug-types-section"], True)
    forms["gcc-lto"] = (["gcc", "-O2", "-g", "-flto"], True)
    forms["gcc-partition"] = (["gcc", "-O2", "-g", "-freorder-blocks-and-partition"], True)
    forms["clang-mlt"] = (["clang", "-O2", "-gmlt"], False)
    forms["clang-profile"] = (["clang", "-O2", "-g", "-fdebug-info-for-profiling"], True)
    forms["clang-mcmodel"] = (["clang", "-O2", "-g", "-fdebug-ranges-base-address"], True)
    forms["clang-split-inlining"] = (["clang", "-O2", "-g", "-gsplit-dwarf", "-fsplit-dwarf-inlining"], True)
    return forms


def run(words, **more):
    """What a program prints; None if it fails."""
    done = subprocess.run(words, capture_output=True, check=False, **more)
    return done.stdout if done.returncode == 0 else None


def make(name, folder):
    """The file of a form and whether all of it must be known; None if there is no such compiler here."""
    def source(path, text):
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            file.write(text)
        return path

    source("calls.h", HEADER)
    program = os.path.join(folder, "program")
    words, is_whole = C_FORMS.get(name.removesuffix("-cxx"), (None, True))
    if words is not None:
        is_cxx = name.endswith("-cxx")
        compiler = {"gcc": "g++", "clang": "clang++"}[words[0]] if is_cxx else words[0]
        path = source("calls.cc" if is_cxx else "calls.c", SOURCE + (CXX if is_cxx else MAIN))
        done = run([compiler, *words[1:], path, "-o", program], cwd=folder)
    elif name.startswith("rust"):
        words = {
            "rust": ["-O", "-g"], "rust-debug": ["-g"], "rust-dwarf5": ["-O", "-g", "-Zdwarf-version=5"],
            "rust-units": ["-O", "-g", "-Ccodegen-units=4"], "rust-lines": ["-O", "-Cdebuginfo=line-tables-only"],
            "rust-packed": ["-O", "-g", "-Csplit-debuginfo=packed"],
            "rust-unpacked": ["-O", "-g", "-Csplit-debuginfo=unpacked"],
        }[name]
        is_whole = name != "rust-lines"
        done = run(["rustc", *words, source("calls.rs", RUST), "-o", program], cwd=folder)
    else:
        words = {"go": ["-ldflags=-compressdwarf=false"], "go-zlib": []}[name]
        is_whole = True
        done = run(["go", "build", *words, "-o", program, source("calls.go", GO)], cwd=folder,
                   env=dict(os.environ, GOCACHE=os.path.join(FOLDER, "go"), GOFLAGS="-mod=mod", GO111MODULE="off"))
    if done is None:
        return None
    # What is asked is in the program as it was linked: llvm-symbolizer does not know all that is done to it afterwards.
    original = os.path.join(folder, "original")
    shutil.copy(program, original)
    if os.path.exists(f"{program}.dwp"):
        shutil.copy(f"{program}.dwp", f"{original}.dwp")
    after = AFTER.get(name.removesuffix("-cxx").split("-", 1)[-1], lambda folder: b"")
    return (program, is_whole, original) if after(folder) is not None else None


def share(folder):
    """Moves what two programs have alike to a file that both refer to, as Fedora and Debian do."""
    shutil.copy(os.path.join(folder, "program"), os.path.join(folder, "other"))
    return run(["dwz", "-m", "shared", "-r", "program", "other"], cwd=folder)


def objcopy(*words):
    """A function that changes the program of a folder by objcopy."""
    return lambda folder: run(["objcopy", *words, os.path.join(folder, "program")])


def pack(folder):
    """Puts the parts of the units into one file, and removes those that the compiler has made."""
    parts = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".dwo")]
    packer = shutil.which("llvm-dwp") or "dwp"
    done = run([packer, "-e", os.path.join(folder, "program"), "-o", os.path.join(folder, "program.dwp")], cwd=folder)
    if done is None or not parts:
        return None
    for part in parts:
        os.remove(part)
    shutil.copy(os.path.join(folder, "program.dwp"), os.path.join(folder, "original.dwp"))
    return b""


AFTER = {
    "split4-dwp": pack,
    "split5-dwp": pack,
    "zstd": objcopy("--compress-debug-sections=zstd"),
    "copied-zlib": objcopy("--compress-debug-sections=zlib-gabi"),
    "dwz": lambda folder: run(["dwz", "program"], cwd=folder),
    "dwz-shared": share,
    "dwz-zlib": lambda folder: None if share(folder) is None else objcopy("--compress-debug-sections")(folder),
}


def addresses(program):
    """Places in the functions of a file that are of its own sources."""
    found = set()
    for line in run(["nm", "-S", "--defined-only", program]).decode().splitlines():
        words = line.split()
        if len(words) >= 4 and words[2] in "tTwW" and any(one in words[3] for one in OURS) and words[3] != "main.main.func1":
            begin, size = int(words[0], 16), int(words[1], 16)
            found.update(range(begin, begin + size, 1 if size < 200 else 3))
    # Library functions that are there by chance are of no interest, but our own must be.
    found = sorted(found)
    return found[:: -(-len(found) // MOST)]


def segments(program):
    """The loaded segments: offset, address, size in the file."""
    with open(program, "rb") as file:
        data = file.read()
    if data[4] == 2:
        at, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
        all_of = [struct.unpack_from("<IIQQQQ", data, at + one * size) for one in range(count)]
        return [(one[2], one[3], one[5]) for one in all_of if one[0] == 1]
    at, size, count = struct.unpack_from("<I", data, 28)[0], *struct.unpack_from("<HH", data, 42)
    all_of = [struct.unpack_from("<IIIIII", data, at + one * size) for one in range(count)]
    return [(one[1], one[2], one[4]) for one in all_of if one[0] == 1]


TSDL = """/* CTF 1.8 */
typealias integer { size = 16; align = 8; } := u16;
typealias integer { size = 64; align = 8; base = 16; } := u64;
typealias integer { size = 32; align = 8; signed = true; } := i32;
trace { major = 1; minor = 8; byte_order = le; };
env { domain = "kernel"; hostname = "h"; tracer_name = "strata"; };
clock { name = c; freq = 1000000000; };
stream {
  event.header := struct { u16 id; integer { size = 64; align = 8; map = clock.c.value; } timestamp; };
  event.context := struct { i32 tid; };
};
event { name = "lttng_statedump_vm_map"; id = 0;
  fields := struct { i32 pid; u64 start; u64 end; u64 offset; string path; string build_id; }; };
event { name = "cpu_clock"; id = 1; fields := struct { u64 ip; i32 pid; u16 n; u64 callstack_user[n]; }; };
"""


def ours(program, wanted):
    """The frames of each address, the innermost first: name and line, or None."""
    trace = os.path.join(os.path.dirname(program), "trace")
    shutil.rmtree(trace, ignore_errors=True)
    os.makedirs(trace)
    size = os.path.getsize(program)
    with open(os.path.join(trace, "metadata"), "w", encoding="utf-8") as file:
        file.write(TSDL)
    with open(os.path.join(trace, "stream"), "wb") as file:
        file.write(struct.pack("<HQiiQQQ", 0, 1, 7, 7, BASE, BASE + size, 0) + program.encode() + b"\0\0")
        parts = segments(program)
        for time, address in enumerate(wanted):
            offset = next(address - begin + at for at, begin, bytes_ in parts if begin <= address < begin + bytes_)
            file.write(struct.pack("<HQiQiHQ", 1, time + 2, 7, BASE + offset, 7, 1, BASE + offset))
    said = subprocess.run(
        [STRATA, "view", "--debug-info", "--mangled", "--format", "json", trace], capture_output=True, check=False)
    if said.returncode:
        raise SystemExit(f"{program}: exit status {said.returncode}: {said.stderr.decode()[:2000]}")
    found = []
    for line in said.stdout.decode().splitlines():
        event = json.loads(line)
        if event["name"] != "cpu_clock":
            continue
        [frame] = event["callstack_user"]
        frames = []
        for one in [*frame.get("inlined", []), frame]:
            name = (one.get("func") or "").removesuffix("+0").split("+0x")[0] or None
            frames.append((name, one.get("src")))
        found.append(frames)
    return found, said.stderr.decode()


def theirs(program, wanted):
    """The same by llvm-symbolizer."""
    said = run(
        ["llvm-symbolizer", f"--obj={program}", "--inlining", "--no-demangle", "--output-style=JSON", "--no-debuginfod"],
        input="".join(f"{address:#x}\n" for address in wanted).encode(),
    )
    if said is None:
        said = run(
            ["llvm-symbolizer", f"--obj={program}", "--inlining", "--no-demangle", "--output-style=JSON"],
            input="".join(f"{address:#x}\n" for address in wanted).encode(),
        )
    found = []
    for line in said.decode().splitlines():
        line = json.loads(line)
        for one in line if isinstance(line, list) else [line]:
            frames = []
            for frame in one.get("Symbol", []):
                place = os.path.basename(frame["FileName"])
                frames.append((frame["FunctionName"] or None, f"{place}:{frame['Line']}" if frame["Line"] else None))
            found.append(frames)
    return found


def plain(name):
    """A name without what linkers and compilers add to a symbol's."""
    name = name and re.split(r"\.(?:cold|part|constprop|isra)|@", name)[0]
    # Two constructors or destructors that do the same are one function, with two symbols.
    return name and re.sub("([CD])1E", r"\1E", name).replace("C2E", "CE").replace("D2E", "DE")


def is_of(name, other):
    """Whether a frame's name is another one, or that without its scope and types, or not known."""
    if name in (None, other):
        return True
    name = name.split("<")[0]
    part = {"o": "" if name.startswith("operator") else None, "~": "D"}.get(name[:1])
    part = f"{len(name)}{name}" if part is None else part
    return other is not None and other.startswith("_Z") and part in other


def judge(own, peer):
    """Returns "same", "less" or what is wrong."""
    own = [(plain(name), line) for name, line in own]
    peer = [(plain(name), line) for name, line in peer]
    if own == peer:
        return "same"
    (name, line), (outer, _) = own[-1], peer[-1]
    if name is not None and outer is not None and name != outer:
        return "the function is another"
    # Without frames of inlined calls, the line is that of the address.
    if len(own) == 1:
        return "less" if line in (None, peer[0][1], peer[-1][1]) else "the line is another"
    rest = iter(peer)
    for one, at in own:
        if not any(is_of(one, other) and at in (None, there) for other, there in rest):
            return "the frames are others"
    return "less"


def check(name):
    """The number of wrong places of a form, and a line about it."""
    folder = os.path.join(FOLDER, name)
    os.makedirs(folder)
    made = make(name, folder)
    if made is None:
        return 0, f"{name}: not made here", 0
    program, is_whole, original = made
    wanted = addresses(program)
    assert wanted, f"{name}: none of our functions is in the file"
    (own, talk), peer = ours(program, wanted), theirs(original, wanted)
    assert len(own) == len(peer) == len(wanted), (name, len(own), len(peer), len(wanted))
    counts, shown = {}, 0
    for address, one, other in zip(wanted, own, peer):
        verdict = judge(one, other)
        counts[verdict] = counts.get(verdict, 0) + 1
        is_bad = verdict not in (("same",) if is_whole else ("same", "less"))
        if is_bad and shown < 3:
            shown += 1
            print(f"BAD {name}: {address:#x}: {verdict}\n  strata          {one}\n  llvm-symbolizer {other}\n  {talk[:300]}")
    bad = len(wanted) - counts.get("same", 0) - (0 if is_whole else counts.get("less", 0))
    if not os.environ.get("KEEP"):
        shutil.rmtree(folder)
    return bad, f"{name}: {len(wanted)} places, " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())), 1


C_FORMS = c_forms()
# What only ALL=1 has: forms that differ little from others. Of the others every other one is tried today (tests/share.py).
SPARE = {
    f"{compiler}-{form}-cxx"
    for compiler in ("gcc", "clang")
    for form in ("dwarf2-O0", "dwarf3-O0", "dwarf4-O0", "dwarf3-64bit", "dwarf4-64bit", "fixed", "shared", "types4", "zlib-gnu")
}


def main():
    # Those of C++ have all that those of C have, but for the 32-bit ones, which have no library here.
    all_forms = [
        *(name if "lto" in name or "-32" in name else f"{name}-cxx" for name in C_FORMS),
        "rust", "rust-debug", "rust-units", "rust-lines", "rust-packed", "rust-unpacked", "go", "go-zlib",
    ]
    names = sys.argv[3:] or todays([name for name in all_forms if ALL or name not in SPARE], 2)
    bad = made = 0
    for name in names:
        wrong, text, is_made = check(name)
        bad, made = bad + wrong, made + is_made
        print(text, flush=True)
    print(f"{made} of {len(names)} forms, {told()}: {bad} places are named otherwise")
    sys.exit(1 if bad or made == 0 else 0)


main()
