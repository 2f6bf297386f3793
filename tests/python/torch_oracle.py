# SPDX-License-Identifier: Apache-2.0
"""Judges every model that a test lets the program write: torch loads it, runs it, and gets what the model before gave."""

import functools
import hashlib
import json
import pathlib
import re
import subprocess
import zipfile

import life

seen = {}  # by contents: what was written already, and the results of what it was made from


def contents(path):
    return hashlib.sha256(path.read_bytes()).digest()


@functools.cache
def lossy(program):
    listed = subprocess.run([program, "list", "--json"], capture_output=True, text=True, check=True).stdout
    return [t["name"] for t in json.loads(listed) if not t["preserves_computation"]]


def has_lossy_steps(program, path):
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith("refx/history.json")]
        text = "".join(archive.read(name).decode() for name in names)
    return any(f'"{name}"' in text for name in lossy(program))


def results(path):
    """The program and its results; None if torch does not load or run it."""
    key = contents(path)
    if key not in seen:
        try:
            exported = life.load(path)
            seen[key] = exported, life.outputs(exported)
        except Exception:
            seen[key] = None
    return seen[key]


def check_written(program, args, folder=".", compare=True):
    """Of the arguments of a command that succeeded: asserts that torch accepts the .pt2 file after -o, if there is one."""
    args = [str(arg) for arg in args]
    if "-o" not in args[:-1] or len(args) < 3 or "--discard-changes" in args:  # which gives other results on purpose
        return
    source, written = (pathlib.Path(folder) / name for name in (args[1], args[args.index("-o") + 1]))
    if not re.search(r"\.pt2$", str(source)) or not re.search(r"\.pt2$", str(written)):
        return
    if not source.exists() or not written.exists() or source.samefile(written):
        return
    key = contents(source), contents(written)
    if key in seen or key[0] == key[1]:
        return
    seen[key] = True
    before = results(source)
    if before is None:
        return
    exported, was = before
    now = life.outputs(life.load(written), exported.example_inputs)
    if compare and not any(has_lossy_steps(program, path) for path in (source, written)):
        error = life.difference(was, now)
        assert error <= 1, f"refx {' '.join(args)}: in torch, results differ by {error:.3g} times what is allowed"
