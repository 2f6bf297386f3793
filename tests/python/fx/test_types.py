# SPDX-License-Identifier: Apache-2.0
"""The stubs match the extension, and the package and programs that use it pass the type checker."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]


def run(*command):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT)


def test_stubs_are_current():
    pytest.importorskip("pybind11_stubgen")
    result = run("python/stubs.py", "--check")
    assert result.returncode == 0, result.stdout + result.stderr


def test_stubs_name_every_argument():
    unnamed = re.findall(r"\barg\d+\b", (ROOT / "python" / "refx" / "_core.pyi").read_text())
    assert not unnamed, "a binding in python/src lacks py::arg"


def test_the_package_is_typed():
    pytest.importorskip("mypy")
    result = run("-m", "mypy", "--config-file", "pyproject.toml", "--no-incremental", "python/refx",
                 "tests/python/fx/typed.py")
    assert result.returncode == 0, result.stdout + result.stderr
