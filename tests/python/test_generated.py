# SPDX-License-Identifier: Apache-2.0
"""Pages that are written by the program are what it says today."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_transformations():
    command = [sys.executable, ROOT / "scripts" / "docs.py", os.environ["REFX_PROGRAM"]]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    page = ROOT / "docs" / "transformations.md"
    assert page.read_text() == said, "run: scripts/docs.py build/bin/refx > docs/transformations.md"
