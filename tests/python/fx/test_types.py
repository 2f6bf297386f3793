"""The stubs say what the extension has, and the package and its users pass the type checker."""

import pathlib
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


def test_the_package_is_typed():
    pytest.importorskip("mypy")
    result = run("-m", "mypy", "--config-file", "pyproject.toml", "--no-incremental", "python/refx",
                 "tests/python/fx/typed.py")
    assert result.returncode == 0, result.stdout + result.stderr
