"""ELF files with debug information by hand, for what no compiler writes."""

import struct


def uleb(value):
    """A number as LEB128."""
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def elf(path, sections, apparent=None, compressed=()):
    """An ELF file of these sections: name -> (type, link, bytes or size in a hole). All of it is one segment. Those whose names
    are in `compressed` begin with a header that says how."""
    names, offset, at = b"\0", 0x1000, {}
    table = [struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)]
    numbers = {name: index + 1 for index, name in enumerate(sections)}
    with open(path, "wb") as file:
        for name, (kind, link, data) in sections.items():
            size = data if isinstance(data, int) else len(data)
            at[name] = len(names)
            names += name.encode() + b"\0"
            if not isinstance(data, int):
                file.seek(offset)
                file.write(data)
            table.append(
                struct.pack("<IIQQQQIIQQ", at[name], kind, 0x800 if name in compressed else 0, 0, offset, size, numbers.get(link, 0), 0, 1, 0)
            )
            offset += size
        names_at = len(names)
        names += b".shstrtab\0"
        file.seek(offset)
        file.write(names)
        table.append(struct.pack("<IIQQQQIIQQ", names_at, 3, 0, 0, offset, len(names), 0, 0, 1, 0))
        file.write(b"".join(table))
        file.truncate(max(file.tell(), apparent or 0))
        file.seek(0)
        file.write(
            b"\x7fELF\2\1\1" + bytes(9)
            + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, offset + len(names), 0, 64, 56, 1, 64, len(table), len(table) - 1)
        )
        file.write(struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 1 << 40, 1 << 40, 4096))
    return path


# Abbreviations: 1 unit, 2 function, 3 inlined call, 4 block, 5 name space; all with children. 6: an inlined call with its origin
# and the line of the call, with children. 7: a function with a name, 8: one whose name is that of another entry, 9: an inlined
# call whose ranges are in a list.
ABBREVIATIONS = bytes.fromhex(
    "01 11 01 11 01 12 07 10 17 00 00  02 2e 01 11 01 12 07 03 08 00 00  03 1d 01 11 01 12 07 00 00"
    "04 0b 01 00 00  05 39 01 00 00  06 1d 01 11 01 12 07 31 10 58 06 59 06 00 00"
    "07 2e 00 03 08 00 00  08 2e 00 31 10 00 00  09 1d 00 55 17 31 10 00 00 00"
)
CODE, CODE_BYTES = 0x100000, 0x100000


def unit(body):
    """.debug_info of one unit."""
    data = struct.pack("<HIB", 4, 0, 8) + b"\1" + struct.pack("<QQI", CODE, CODE_BYTES, 0) + body + b"\0"
    return struct.pack("<I", len(data)) + data


def program(body, files=b"a.c\0\0\0\0"):
    """.debug_line of one unit, whose line program and source files these are."""
    head = bytes([1, 1, 1, 0xFB, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + b"\0" + files + b"\0"
    data = struct.pack("<HI", 4, len(head)) + head + body
    return struct.pack("<I", len(data)) + data


ROWS_BEGIN = b"\0\x09\x02" + struct.pack("<Q", CODE)
ROWS_END = b"\0\1\1"


def dwarf(path, body, rows=b"\x13" * 16):
    """A file whose debug information has this in its unit, and these rows of lines."""
    return elf(path, {
        ".debug_info": (1, "", unit(body)),
        ".debug_abbrev": (1, "", ABBREVIATIONS),
        ".debug_line": (1, "", program(ROWS_BEGIN + rows + ROWS_END)),
    })


def named_calls(depth, origin, file=1):
    """Inlined calls in each other, whose name is at an offset of the section, and whose calls are in a file."""
    call = b"\6" + struct.pack("<QQIII", CODE, CODE_BYTES, origin, file, 7)
    return call * depth + b"\0" * depth


# Where the first entry of a unit's body is in the section: behind the heads of the section and of the unit.
BODY = 4 + 7 + 21


def function(inner, name=b"deep"):
    """A function, and what is in it."""
    return b"\2" + struct.pack("<QQ", CODE, CODE_BYTES) + name + b"\0" + inner + b"\0"
