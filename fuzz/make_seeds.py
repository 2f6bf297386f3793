# SPDX-License-Identifier: Apache-2.0
"""Writes what the search starts from: files of the tests, values that torch.save writes.

usage: make_seeds.py FOLDER MODELS…
"""

import io
import re
import shutil
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import torch


def values():
    """Each storage of 64 bytes: all that the target for pickles has."""
    x = torch.arange(16.0).reshape(2, 8)
    yield x
    yield (x, x.t(), x[1:]), {"mask": torch.ones(64, dtype=torch.bool), "n": 3}
    yield [1, -1, 2**40, 0.5, float("inf"), True, None, "text", 1 + 2j]
    yield [2**70, b"bytes"]
    yield {1: "a", "b": [2, {3: (4, {5: []})}]}
    yield OrderedDict(a=torch.Size([1, 2]), b=torch.float16, c=torch.device("cpu"))
    yield torch.nn.Parameter(x)
    shared = [x]
    yield shared, shared, (shared, {"again": shared})


def pickle_of(value):
    file = io.BytesIO()
    torch.save(value, file)
    with zipfile.ZipFile(file) as archive:
        return next(archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))


def texts():
    """Models in the text form, from the tests of the transformations."""
    for test in sorted((Path(__file__).parents[1] / "tests" / "transforms").glob("*_test.cpp")):
        for text in re.findall(r'R"\((.*?)\)"', test.read_text(), re.DOTALL):
            if "graph():" in text:
                yield text


def histories():
    """Of GraphModules, as they are pickled: the sizes of their tensors, a line, the bytes."""
    try:
        from refx.fx._history import History
    except ImportError:  # the package is not built
        return
    for file in sorted((Path(__file__).parents[1] / "tests" / "data" / "fx").glob("*.all.pt")):
        graph_module = torch.load(file, weights_only=False)
        data, tensors = History.of(graph_module).mirror.save()
        sizes = ";".join(",".join(map(str, tensor.shape)) for tensor in tensors)
        yield sizes.encode() + b"\n" + data


def main():
    folder, models = Path(sys.argv[1]), [Path(model) for model in sys.argv[2:]]
    for target in (
        "zip",
        "pickle",
        "program",
        "history",
        "text",
        "rule",
        "operators",
        "graph_module",
    ):
        (folder / target).mkdir(parents=True, exist_ok=True)
    for model in models:
        with zipfile.ZipFile(model) as archive:
            has_history = any(name.endswith("refx/history.json") for name in archive.namelist())
        shutil.copy(model, folder / ("history" if has_history else "program"))
    shutil.copy(min(models, key=lambda model: model.stat().st_size), folder / "zip")
    for i, value in enumerate(values()):
        (folder / "pickle" / str(i)).write_bytes(pickle_of(value))
    for i, data in enumerate(histories()):
        (folder / "graph_module" / str(i)).write_bytes(data)
    for i, text in enumerate(texts()):
        (folder / "text" / str(i)).write_text(text)
    for rules in sorted((Path(__file__).parents[1] / "rules").glob("*.refx")):
        shutil.copy(rules, folder / "rule")


main()
