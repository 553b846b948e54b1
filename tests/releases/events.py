"""Prints a line of JSON for a trace: its name, and of each event the time, the name and the fields, as `strata view` reads them."""

import json
import os
import subprocess
import sys

strata, trace = sys.argv[1:]
said = subprocess.run([strata, "view", "--format", "json", trace], stdout=subprocess.PIPE, check=True).stdout
events = [json.loads(line) for line in said.splitlines()]
if not events:
    sys.exit(f"{trace} has no event")
print(json.dumps([os.path.basename(trace), events], ensure_ascii=False, separators=(",", ":")))
