# SPDX-License-Identifier: Apache-2.0
"""The rules that ship with refx match every layer that they should match in models of transformers, N of N."""

import collections

import pytest
import torch

import producers
from conftest import HERE, load

pytest.importorskip("transformers")
hub = pytest.importorskip("hub")

KINDS = {"attention": ("fuse-attention", "fuse-attention-where", "fuse-attention-masked-fill"),
         "heads": ("fuse-attention-repeated-heads",),
         "norm": ("fuse-native-layer-norm", "fuse-layer-norm"),
         "rms": ("fuse-rms-norm",),
         "gelu": ("fuse-gelu", "fuse-gelu-tanh"),
         "silu": ("fuse-silu",)}


def close(a, b):
    scale = max(a.float().abs().max().item(), 1e-6)
    return (a.double() - b.double()).abs().max().item() < scale * (3e-2 if a.dtype == torch.bfloat16 else 1e-4)


@pytest.fixture(scope="module")
def exports(request, tmp_path_factory):
    """exports(version, name): a file that this version of transformers exported."""
    params = [item.callspec.params for item in request.session.items if item.module.__name__ == __name__]
    works = {}
    for version, source in producers.installed().items():
        names = [p["name"] for p in params if p["version"] == version]
        if names:
            folder = tmp_path_factory.mktemp(version)
            works[version] = folder, producers.Work([HERE / "hub.py", folder, *names], source, folder / "log")

    def export(version, name):
        folder, work = works[version]
        path = folder / f"{name}.pt2"
        assert work.wait_for(path.exists), (folder / "log").read_text()
        return path

    yield export
    for _, work in works.values():
        work.stop()


@pytest.mark.parametrize("name", hub.MODELS)
@pytest.mark.parametrize("version", producers.installed())
def test_every_layer_is_found(version, name, refx, exports, tmp_path):
    path, fast, back = exports(version, name), tmp_path / "fast.pt2", tmp_path / "back.pt2"
    rules = [t["name"] for t in refx("list", "--json").json()
             if t["preserves_computation"] and t["name"].startswith(
                 ("fuse-linear", "remove-reshapes", "fuse-matmul", "split-baddbmm", "reshape-attention", "fuse-attention",
                  "fuse-layer-norm", "fuse-native-layer-norm", "fuse-rms-norm", "fuse-gelu", "fuse-silu"))]
    steps = collections.Counter(s["transformation"] for s in refx("apply", path, *rules, "-o", fast, "--json").json()["steps"])
    found = {kind: sum(steps[rule] for rule in names) for kind, names in KINDS.items()}
    found["linear"] = steps["fuse-linear"] + steps["fuse-linear-transposed"]
    expected = dict.fromkeys(found, 0) | hub.MODELS[name][1]
    if name == "gpt2":
        expected["linear"] = 8  # its Conv1D
    assert found == expected

    program = load(path)
    args, kwargs = program.example_inputs
    with torch.no_grad():
        was, now = program.module()(*args, **kwargs), load(fast).module()(*args, **kwargs)
    assert all(close(was[key], now[key]) for key in was)
    assert refx("verify", fast).code == 0
    refx("reverse", fast, "--all", "-o", back)
    assert back.read_bytes() == path.read_bytes()
