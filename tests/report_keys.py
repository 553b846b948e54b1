"""Checks that the guide names all keys of reports. Each of the files is what a `strata analyze REPORT --format json` has printed.

report_keys.py FILE...

The pages of a report are docs/guide/analyze.md and its own. A key is named if it stands as code in the part JSON of one.
What every report has is in every file. Prints how many keys there are.
"""

import json
import pathlib
import re
import sys

GUIDE = pathlib.Path("docs/guide")
EVERY = {"version", "report", "from_ns", "to_ns", "records", "discarded_records", "damage_count", "rows", "rows_count"}


def named(page):
    """The words that a page's part JSON has as code."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    part = re.search(r"^## JSON\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    code = re.findall(r"`([^`]+)`", part[1]) if part else []
    return {word for piece in code for word in re.findall(r"\w+", piece)}


def keys(value, path=""):
    """All keys that a value has, with where they are."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield key, f"{path}.{key}"
            yield from keys(below, f"{path}.{key}")
    elif isinstance(value, list):
        for below in value:
            yield from keys(below, f"{path}[]")


general, found, wrong = named(GUIDE / "analyze.md"), set(), set()
assert EVERY <= general, EVERY - general
for path in sys.argv[1:]:
    report = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    name = report["report"]
    assert EVERY <= report.keys(), (path, EVERY - report.keys())
    there = general | named(GUIDE / f"analyze-{name}.md")
    for key, place in keys(report):
        found.add((name, key))
        if key not in there:
            wrong.add(f"{name}: no page names the key {place}")
print(len(found), "keys")
sys.exit("\n".join(sorted(wrong)) or 0)
