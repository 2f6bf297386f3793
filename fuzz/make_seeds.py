"""Writes what the search starts from: files that the tests export, values that torch.save writes.

usage: make_seeds.py FOLDER MODELS…
"""

import io
import shutil
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import torch


def values():
    x = torch.arange(6.0).reshape(2, 3)
    yield x
    yield (x, x.t(), x[1:]), {"mask": torch.ones(2, dtype=torch.bool), "n": 3}
    yield [1, -1, 2**40, 2**70, 0.5, float("inf"), True, None, "text", b"bytes", 1 + 2j]
    yield {1: "a", "b": [2, {3: (4, {5: []})}]}
    yield OrderedDict(a=torch.Size([1, 2]), b=torch.float16, c=torch.device("cpu"))
    yield torch.nn.Parameter(x)
    shared = [x]
    yield shared, shared, (shared, {"again": shared})


def pickles_in(file, prefix=""):
    """Of torch.save'd files, also of those inside a .pt2 file."""
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            if name.endswith("data.pkl"):
                yield data
            elif name.endswith(".pt"):
                yield from pickles_in(io.BytesIO(data))


def main():
    folder, models = Path(sys.argv[1]), [Path(model) for model in sys.argv[2:]]
    for target in ("zip", "pickle", "program", "history", "text", "operators"):
        (folder / target).mkdir(parents=True, exist_ok=True)
    pickles = []
    for value in values():
        file = io.BytesIO()
        torch.save(value, file)
        pickles += pickles_in(file)
    for model in models:
        with zipfile.ZipFile(model) as archive:
            has_history = any(name.endswith("refx/history.json") for name in archive.namelist())
        shutil.copy(model, folder / ("history" if has_history else "program"))
        if not has_history:
            shutil.copy(model, folder / "zip")
            pickles += pickles_in(model)
    for i, data in enumerate(sorted(set(pickles))):
        (folder / "pickle" / str(i)).write_bytes(data)
    for text in (Path(__file__).parent / "text").glob("*"):
        shutil.copy(text, folder / "text")


main()
