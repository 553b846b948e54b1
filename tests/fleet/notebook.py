"""Runs all cells of a notebook, and checks that it has come to its end and drawn a picture."""

import sys

import nbclient
import nbformat

SOURCE, RESULT = sys.argv[1:]
notebook = nbformat.read(SOURCE, as_version=4)
nbclient.NotebookClient(notebook, timeout=1200, kernel_name="python3").execute()
nbformat.write(notebook, RESULT)
outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
assert any("image/png" in output.get("data", {}) for output in outputs), "the notebook has drawn no picture"
text = "".join(output.get("text", "") for output in outputs)
print(text, end="")
assert "slowest host" in text, text
