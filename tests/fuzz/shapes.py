"""shapes.py FOLDER: writes the shapes, small traces by the tests of tests/interop: NAME.tsdl and NAME.stream of each.

src/shapes.rs has the list of them; half are little-endian, half big-endian.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))
sys.dont_write_bytecode = True

from check_constructs import CONSTRUCTS  # noqa: E402

LITTLE = """header_none packet_header_none header_compact_1 header_flat_3_61_1 time_wraps_8_from_0 sequences
scopes_tag_packet_context integers_byte_order_odd_widths random_33 packets_with_gaps lttng_s_own"""
BIG = """packet_context_none packet_context_sizes_only header_large_8 header_flat_5_27_1 variants
structures_in_arrays variants_in_variants text_arrays packet_context_own_members random_39 dimensions"""


def main():
    for order, names in (("le", LITTLE), ("be", BIG)):
        for name in names.split():
            made = CONSTRUCTS[name](order)
            trace = getattr(made, "trace", made)
            path = os.path.join(sys.argv[1], name)
            with open(path + ".tsdl", "wb") as file:
                file.write(trace.metadata())
            with open(path + ".stream", "wb") as file:
                file.write(trace.files[0].data)


main()
