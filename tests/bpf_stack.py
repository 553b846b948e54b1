#!/usr/bin/env python3
"""How much stack the programs of BPF objects need at most, as the verifier of Linux 6.1 counts it.

    bpf_stack.py OBJECT.o ...    the deepest chain of calls of each object; exit status 1 if one is too deep or too long

A frame is as deep as its lowest access, rounded up to 32 bytes; newer kernels round up to less.
"""
import struct
import sys

LIMIT, NEAR, FRAME, FRAMES_MAX = 512, 480, 32, 8
INSN = 8
R_BPF_64_32 = 10
LD_IMM64, MOV64_REG, ADD64_IMM, CALL = 0x18, 0xBF, 0x07, 0x85
LDX, ST, STX, ALU64 = 1, 2, 3, 7
FP = 10


class Elf:
    """Sections, symbols and relocations of a little-endian 64-bit object."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a little-endian 64-bit ELF file")
        offset, = struct.unpack_from("<Q", self.data, 0x28)
        size, count, names = struct.unpack_from("<HHH", self.data, 0x3A)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, offset + i * size) for i in range(count)]
        self.names = [self.text(names, section[0]) for section in self.sections]

    def text(self, section, at):
        begin = self.sections[section][4] + at
        return self.data[begin:self.data.index(b"\0", begin)].decode()

    def content(self, section):
        _, kind, _, _, offset, size = self.sections[section][:6]
        return self.data[offset:offset + size] if kind != 8 else b""

    def entries(self, kind, form):
        """Of all sections of one type: section, its link and info, the entry."""
        for at, section in enumerate(self.sections):
            if section[1] == kind:
                for entry in struct.iter_unpack(form, self.content(at)):
                    yield section[6], section[7], entry

    def symbols(self):
        return [(self.text(link, entry[0]), *entry[1:]) for link, _, entry in self.entries(2, "<IBBHQQ")]

    def relocations(self):
        return {(info, entry[0]): (entry[1] & 0xFFFFFFFF, entry[1] >> 32)
                for _, info, entry in self.entries(9, "<QQ")}


def depth_of(code):
    """The lowest access [byte], of pointers that are made of the frame pointer in a straight line."""
    deepest, made = 0, {FP: 0}
    for op, registers, offset, imm in struct.iter_unpack("<BBhi", code):
        to, source, kind = registers & 15, registers >> 4, op & 7
        if op == MOV64_REG and source in made:
            made[to] = made[source]
            continue
        if op == ADD64_IMM and to in made:
            made[to] += imm
            deepest = max(deepest, -made[to])
            continue
        base = source if kind == LDX else to if kind in (ST, STX) else None
        if base in made:
            deepest = max(deepest, -(made[base] + offset))
        if op == CALL:
            made = {register: at for register, at in made.items() if register > 5}
        elif kind in (LDX, 0, 4, ALU64) and to != FP:
            made.pop(to, None)
    return deepest


def functions(elf):
    """By section and offset: name, depth, and where it calls."""
    symbols, relocations, found = elf.symbols(), elf.relocations(), {}
    for name, info, _, section, value, size in symbols:
        if info & 15 != 2 or section == 0:
            continue
        code, calls = elf.content(section)[value:value + size], set()
        for at in range(0, size, INSN):
            op, registers, _, imm = struct.unpack_from("<BBhi", code, at)
            if op != CALL or registers >> 4 != 1:
                continue
            relocation = relocations.get((section, value + at))
            if relocation is None:
                calls.add((section, value + at + (imm + 1) * INSN))
                continue
            kind, symbol = relocation
            assert kind == R_BPF_64_32, f"{name}: relocation {kind}"
            _, target_info, _, target, begin, _ = symbols[symbol]
            if target == 0:
                continue  # a function of the kernel, which has a stack of its own
            calls.add((target, begin + (imm + 1) * INSN if target_info & 15 == 3 else begin))
        found[section, value] = (name, depth_of(code), calls)
    return found


def deepest(found, at):
    """The deepest chain from a function on: bytes, and its names with their depths."""
    name, depth, calls = found[at]
    rest = max((deepest(found, call) for call in calls), default=(0, []))
    return (max(depth, 1) + FRAME - 1) // FRAME * FRAME + rest[0], [f"{name} {depth}"] + rest[1]


def longest(found, at):
    """The chain with the most functions from one on: their names."""
    name, _, calls = found[at]
    return [name] + max((longest(found, call) for call in calls), default=[], key=len)


def main():
    is_too_deep = False
    for path in sys.argv[1:]:
        elf = Elf(path)
        found = functions(elf)
        # What no function calls is called by the kernel, with a stack of its own.
        called = {call for _, _, calls in found.values() for call in calls}
        programs = [at for at in found if elf.names[at[0]] != ".text" or at not in called]
        assert programs, f"{path}: there is no program"
        depth, chain = max(deepest(found, at) for at in programs)
        what = "near the limit" if depth >= NEAR else "ok"
        if depth > LIMIT:
            is_too_deep, what = True, "too deep"
        print(f"{what}: {path}: {depth} bytes of {LIMIT} in {len(chain)} frames: {', '.join(chain)}")
        most = max((longest(found, at) for at in programs), key=len)
        if len(most) > FRAMES_MAX:
            is_too_deep = True
            print(f"too deep: {path}: {len(most)} frames of {FRAMES_MAX}: {', '.join(most)}")
    sys.exit(is_too_deep)


main()
