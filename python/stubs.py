"""Writes python/refx/_core.pyi from the built extension.

    PYTHONPATH=build/python python python/stubs.py [--check]
"""

import pathlib
import subprocess
import sys
import tempfile

STUBS = pathlib.Path(__file__).parent / "refx" / "_core.pyi"


def generate() -> str:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pybind11_stubgen", "refx._core", "-o", folder,
                        "--exit-code"], check=True, capture_output=True)
        text = (pathlib.Path(folder) / "refx" / "_core.pyi").read_text()
    # The errors call themselves refx's, so that users see that name; they are defined here.
    for name, base in (("Error", "ValueError"), ("InternalError", "RuntimeError")):
        text = text.replace(f"from refx import {name}\n", "")
        text = text.replace("\nclass ", f"\nclass {name}({base}):\n    ...\nclass ", 1)
    return text


if __name__ == "__main__":
    text = generate()
    if "--check" in sys.argv:
        if not STUBS.exists() or STUBS.read_text() != text:
            sys.exit("python/refx/_core.pyi is out of date: run python/stubs.py")
    else:
        STUBS.write_text(text)
