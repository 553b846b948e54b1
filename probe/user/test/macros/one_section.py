"""one_section.py CASES OUTPUT: the names of those cases of fail/cases.c that OUTPUT, of a compiler that was given all of
them at once, does not settle: they are to be compiled alone.

Settled is a case that ought to be refused in libstrata's own words ("strata: ..."), of which no other case can be the
reason, if one message has these words and points at the case's line. Whether an error is the only one is not seen so.
"""

import re
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = file.read().split("\n")
    with open(sys.argv[2], encoding="utf-8", errors="replace") as file:
        # A message with its notes, and what the compiler says of where the next one is.
        messages = re.split(r"^(?=\S.*: (?:fatal )?(?:error|warning): )", file.read(), flags=re.MULTILINE)[1:]
    for number, line in enumerate(lines):
        case = re.fullmatch(r"/\* ([a-z0-9_]+): (.*) \*/", line)
        if not case:
            continue
        name, text = case.groups()
        # The code is two lines further on; lines count from 1.
        settled = any(" error: " in said and text in said and f"cases.c:{number + 3}:" in said for said in messages)
        if not settled or not text.startswith("strata: ") or name.startswith("forgotten_"):
            print(name)


if __name__ == "__main__":
    main()
