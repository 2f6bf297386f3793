# SPDX-License-Identifier: Apache-2.0
"""`make python` installs the package into the environment, and `pip uninstall` removes it."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = """
import importlib.metadata as metadata, json, sys
of = metadata.distribution("refx")
print(json.dumps([of.version, of.metadata["Summary"], sorted(map(str, of.files)), all(f.locate().exists() for f in of.files),
                  [p for p in sys.path if p.endswith("build/python")], len(list(metadata.distributions(name="refx")))]))
"""


def test_the_environment_knows_the_package(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    python = tmp_path / "bin/python"
    for _ in range(2):  # again, and there is still one
        subprocess.run([python, ROOT / "scripts/link_package.py"], check=True)
    found = subprocess.run([python, "-c", CODE], check=True, capture_output=True, text=True)
    version, summary, files, there, path, count = json.loads(found.stdout)
    assert f"project(refx VERSION {version}" in (ROOT / "CMakeLists.txt").read_text()
    assert summary == "Reversible rewrites of PyTorch graphs" and there and count == 1
    assert "refx.pth" in files and path == [str(ROOT / "build/python")]
