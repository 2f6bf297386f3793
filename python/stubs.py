# SPDX-License-Identifier: Apache-2.0
"""Writes what type checkers cannot see: the stubs of the extension.

    PYTHONPATH=build/python python python/stubs.py [--check]
"""

import pathlib
import subprocess
import sys
import tempfile

PACKAGE = pathlib.Path(__file__).parent / "refx"


def extension() -> str:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pybind11_stubgen", "refx._core", "-o", folder,
                        "--exit-code"], check=True, capture_output=True)
        text = (pathlib.Path(folder) / "refx" / "_core.pyi").read_text()
    text = text.replace("**kwargs)", "**kwargs: typing.Any)")
    # The errors call themselves refx's, so that users see that name; they are defined here.
    for name, base in (("Error", "ValueError"), ("InternalError", "RuntimeError")):
        text = text.replace(f"from refx import {name}\n", "")
        text = text.replace("\nclass ", f"\nclass {name}({base}):\n    ...\nclass ", 1)
    return text


if __name__ == "__main__":
    del sys.path[0]  # this folder, which has the package without the extension
    path, text = PACKAGE / "_core.pyi", extension()
    if "--check" not in sys.argv:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit("python/refx/_core.pyi is out of date: run python/stubs.py")
