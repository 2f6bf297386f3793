# SPDX-License-Identifier: Apache-2.0
"""What refx reads and writes as torch.save does, with torch itself as the judge."""

import collections
import os
import pathlib
import shlex
import subprocess

import pytest
import torch

TESTS = pathlib.Path(os.environ.get("REFX_PROGRAM", "")).parent / "refx_tests"

pytestmark = pytest.mark.skipif(not TESTS.is_file(), reason="refx_tests is not built")


def copy(source, target):
    """refx reads one file and writes it again; the error if it refuses."""
    env = dict(os.environ, REFX_VALUES_FROM=str(source), REFX_VALUES_TO=str(target))
    done = subprocess.run([TESTS, "--gtest_filter=ValuesFile.Copies"], env=env, encoding="utf-8",
                          capture_output=True)
    return "" if done.returncode == 0 else done.stdout


def same(a, b):
    if isinstance(a, torch.Tensor):
        return (isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape
                and torch.equal(a.resolve_conj().contiguous().reshape(-1).view(torch.uint8),
                                b.contiguous().reshape(-1).view(torch.uint8)))
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


VALUES = {
    "args and kwargs": lambda: ((torch.randn(2, 3), [torch.arange(4)]), {"mask": torch.ones(2).bool()}),
    "one tensor": lambda: torch.randn(3),
    "scalars": lambda: (1, -(1 << 40), True, None, 1.5, float("inf"), "text é", 1 + 2j),
    "nothing": lambda: ((), {}),
    "parameter": lambda: (torch.nn.Parameter(torch.ones(2)).detach(),),
    "views of one storage": lambda: (torch.arange(12.0).view(3, 4)[1:, ::2], torch.arange(3)[2]),
    "channels last": lambda: torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "conjugated": lambda: torch.randn(3, dtype=torch.complex64).conj(),
    "empty": lambda: (torch.empty(0), torch.empty(2, 0, 3)),
    "long list": lambda: list(range(3000)),
    "shared": lambda: [collections.OrderedDict(a=torch.ones(2))] * 2,
}
DTYPES = [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32,
          torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex128, torch.float8_e4m3fn]


@pytest.mark.parametrize("name", VALUES)
def test_values_survive(tmp_path, name):
    value = VALUES[name]()
    torch.save(value, tmp_path / "a.pt")
    assert copy(tmp_path / "a.pt", tmp_path / "b.pt") == ""
    back = torch.load(tmp_path / "b.pt", weights_only=True)
    assert same(value, back)


def test_every_dtype_survives(tmp_path):
    values = tuple(torch.tensor([0, 1, 1]).to(dtype) for dtype in DTYPES)
    torch.save(values, tmp_path / "a.pt")
    assert copy(tmp_path / "a.pt", tmp_path / "b.pt") == ""
    assert same(values, torch.load(tmp_path / "b.pt", weights_only=True))


def test_strides_survive(tmp_path):
    torch.save(VALUES["channels last"](), tmp_path / "a.pt")
    copy(tmp_path / "a.pt", tmp_path / "b.pt")
    back = torch.load(tmp_path / "b.pt", weights_only=True)
    assert back.is_contiguous(memory_format=torch.channels_last)


class Dangerous:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {shlex.quote(str(self.path))}",)


REFUSED = {
    "a call": (lambda path: (torch.ones(2), Dangerous(path)), "posix.system"),
    "a set": (lambda path: {1, 2}, "set"),
    "a quantized tensor": (lambda path: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8),
                           "_rebuild_qtensor"),
    "a module": (lambda path: torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
    "a large integer": (lambda path: 1 << 70, "64 bits"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_foreign_classes_are_named_and_not_made(tmp_path, name):
    make, word = REFUSED[name]
    torch.save(make(tmp_path / "made"), tmp_path / "a.pt")
    error = copy(tmp_path / "a.pt", tmp_path / "b.pt")
    assert word in error
    assert "torch.save((x, y), path)" in error
    assert not (tmp_path / "made").exists()
    assert not (tmp_path / "b.pt").exists()


def test_old_format_is_refused_with_advice(tmp_path):
    torch.save(torch.ones(2), tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    assert "before 1.6" in copy(tmp_path / "a.pt", tmp_path / "b.pt")


def test_torchscript_is_refused(tmp_path):
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), tmp_path / "a.pt")
    assert "a.pt" in copy(tmp_path / "a.pt", tmp_path / "b.pt")


def test_self_containing_list_is_refused(tmp_path):
    value = [torch.ones(1)]
    value.append(value)
    torch.save(value, tmp_path / "a.pt")
    assert "contains itself" in copy(tmp_path / "a.pt", tmp_path / "b.pt")
