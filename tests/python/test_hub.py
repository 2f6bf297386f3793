"""The rules that ship with refx find every layer that they are for in models of transformers, N of N."""

import collections

import pytest
import torch

transformers = pytest.importorskip("transformers")
hub = pytest.importorskip("hub")

KINDS = {"attention": ("attention-written-out", "attention-written-out-masked", "attention-written-out-filled"),
         "heads": ("attention-with-repeated-heads",),
         "norm": ("layer-norm-in-parts", "layer-norm-written-out"),
         "rms": ("rms-norm-written-out",),
         "gelu": ("gelu-written-out", "gelu-tanh-written-out"),
         "silu": ("silu-written-out",)}


def close(a, b):
    scale = max(a.float().abs().max().item(), 1e-6)
    return (a.double() - b.double()).abs().max().item() < scale * (3e-2 if a.dtype == torch.bfloat16 else 1e-4)


@pytest.mark.parametrize("name", hub.MODELS)
def test_every_layer_is_found(name, refx, tmp_path):
    path, fast, back = (tmp_path / f"{part}.pt2" for part in ("model", "fast", "back"))
    program = hub.export(name)
    torch.export.save(program, path)
    rules = [t["name"] for t in refx("list", "--json").json()
             if t["preserves_computation"] and t["name"].startswith(
                 ("linear-", "matmul-", "attention-", "layer-norm", "rms-", "gelu-", "silu-"))]
    steps = collections.Counter(s["transformation"] for s in refx("apply", path, *rules, "-o", fast, "--json").json()["steps"])
    found = {kind: sum(steps[rule] for rule in names) for kind, names in KINDS.items()}
    found["linear"] = steps["linear-written-out"] + steps["linear-written-out-turned"]
    expected = dict.fromkeys(found, 0) | hub.MODELS[name][1]
    if name == "gpt2":
        expected["linear"] = 8  # its Conv1D
    assert found == expected

    args, kwargs = program.example_inputs
    with torch.no_grad():
        was, now = program.module()(*args, **kwargs), torch.export.load(fast).module()(*args, **kwargs)
    assert all(close(was[key], now[key]) for key in was)
    runs = "higher_order" not in refx("inspect", path, "--graph").out
    if runs:
        assert refx("verify", fast).code == 0
    refx("reverse", fast, "--all", "-o", back)
    assert back.read_bytes() == path.read_bytes()
