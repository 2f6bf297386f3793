# SPDX-License-Identifier: Apache-2.0
"""Runs the cells of a notebook in one namespace, and shows what they end in as Jupyter does.

usage: run_notebook.py NOTEBOOK

The file has no outputs, and the last cell shows a page inline. No kernel: thirty packages and twenty
seconds of installing them would test Jupyter.
"""

import ast
import json
import sys
from pathlib import Path

path = Path(sys.argv[1])
cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
assert not any(cell["outputs"] or cell["execution_count"] for cell in cells), "strip the outputs"

sys.path.insert(0, str(path.parent))  # where Jupyter runs it
namespace, shown = {"__name__": "__main__"}, ""
for cell in cells:
    source = "".join(cell["source"])
    print(f"\n{source}\n")
    body = ast.parse(source).body
    last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), str(path), "exec"), namespace)
    value = eval(compile(last, str(path), "eval"), namespace) if last else None
    shown = value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)
    print(shown[:2000])
assert "<iframe srcdoc=" in shown, "the last cell shows no page"
