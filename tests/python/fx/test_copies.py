# SPDX-License-Identifier: Apache-2.0
"""Undo survives pickle, deepcopy and torch.save, here and in another process."""

import copy
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import refx
import zoo
from kit import Snapshot, by_pickle, by_torch_save, flat, trace
from refx.fx import (
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm1dInLinear,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    compose,
    log,
    reverse,
)


def everything():
    return compose(MergeLinears(), FuseBiasInLinear(), ChangeTrueDivToMulByInverse(),
                   FuseBatchNorm2dInConv2d(), FuseBatchNorm1dInLinear())


def inside_another_module(gm):
    return by_torch_save(nn.Sequential(gm))[0]


COPIES = [copy.deepcopy, by_pickle, by_torch_save, inside_another_module,
          lambda gm: by_pickle(copy.deepcopy(by_pickle(gm)))]


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("name", zoo.MODELS)
def test_a_copy_can_be_reversed(name, copied):
    model, inputs = zoo.make(name)
    gm = trace(model)
    code, keys, expected = gm.code, list(gm.state_dict()), flat(gm(*inputs))
    original = Snapshot(gm, objects=False, meta=False)
    t = everything()
    t(gm)
    transformed = Snapshot(gm)
    other = copied(gm)
    assert [str(s) for s in log(other)] == [str(s) for s in log(gm)]
    assert all(torch.equal(a, b) for a, b in zip(flat(other(*inputs)), flat(gm(*inputs))))

    t(other, reverse=True)
    assert list(other.state_dict()) == keys
    assert all(torch.equal(a, b) for a, b in zip(flat(other(*inputs)), expected))
    if name != "functional":  # torch.fx itself moves get_attrs of buffers when it unpickles
        assert other.code == code
    if copied is copy.deepcopy:
        again = Snapshot(other, objects=False, meta=False)
        again.attributes = original.attributes
        again.assert_equals(original)
    Snapshot(gm).assert_equals(transformed)  # the copy is a copy
    t(gm, reverse=True)
    assert gm.code == code


def test_meta_survives_deepcopy():
    model, inputs = zoo.make("resnet")
    gm = trace(model)
    for i, node in enumerate(gm.graph.nodes):
        node.meta["number"] = i
    t = FuseBatchNorm2dInConv2d()
    other = t(copy.deepcopy(t(gm)), reverse=True)
    assert [n.meta["number"] for n in other.graph.nodes] == list(range(len(other.graph.nodes)))


def test_trained_and_then_copied():
    model, inputs = zoo.make("encoder")
    for copied in COPIES:
        gm = trace(copy.deepcopy(model))
        t = MergeLinears()
        t(gm)
        merged = gm.layers.get_submodule("0").attention.get_submodule("query-key-value-merged")
        with torch.no_grad():
            merged.weight.mul_(2)
        other = t(copied(gm), reverse=True)
        attention = other.layers.get_submodule("0").attention
        assert torch.equal(attention.query.weight, 2 * model.layers[0].attention.query.weight)
        assert torch.equal(attention.value.bias, model.layers[0].attention.value.bias)


class Folded(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(6, 5), nn.BatchNorm1d(5)

    def forward(self, x):
        return self.norm(self.fc(x.flatten(1))) / 3


@pytest.mark.parametrize("copied", COPIES)
def test_two_steps_at_one_weight(copied):
    """The second replaces what the first had made, which nobody has changed."""
    gm = trace(Folded().eval())
    original = Snapshot(gm, objects=False, meta=False)
    t = compose(FuseBatchNorm1dInLinear(), FuseBiasInLinear())
    other = t(copied(t(gm)), reverse=True)
    again = Snapshot(other, objects=False, meta=False)
    again.attributes = original.attributes
    again.assert_equals(original)


@pytest.mark.parametrize("copied", [copy.deepcopy, by_pickle])
def test_looking_at_a_copy_does_not_change_its_names(copied):
    gm = trace(Folded().eval())
    code = gm.code
    t = ChangeTrueDivToMulByInverse()
    other = by_pickle(t(gm))
    assert len(log(other)) == 1
    assert t(copied(other), reverse=True).code == code


def test_another_process(tmp_path):
    model, inputs = zoo.make("encoder")
    gm = trace(model)
    expected = flat(gm(*inputs))
    everything()(gm)
    torch.save((gm, inputs, expected), tmp_path / "model.pt")
    script = """
import sys, torch
sys.path.insert(0, sys.argv[2])
gm, inputs, expected = torch.load(sys.argv[1], weights_only=False)
from refx.fx import log, reverse
assert len(log(gm)) > 10
reverse(gm, "merge-linears")
assert "merge-linears" not in {s.transformation for s in log(gm)}
reverse(gm)
outputs = list(gm(*inputs).values())
assert all(torch.equal(a, b) for a, b in zip(outputs, expected)), "differs"
print("same")
"""
    run = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "model.pt", os.path.dirname(__file__)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert run.stdout.strip() == "same", run.stderr


def test_a_copied_graph_of_its_own():
    model, inputs = zoo.make("encoder")
    gm = trace(model)
    code = gm.code
    t = MergeLinears()
    t(gm)
    gm.graph = copy.deepcopy(gm.graph)
    t(gm, reverse=True)
    assert gm.code == code


def test_a_lost_history_is_an_error():
    model, inputs = zoo.make("encoder")
    gm = trace(model)
    t = MergeLinears()
    t(gm)
    rewrapped = torch.fx.GraphModule(gm, gm.graph)
    with pytest.raises(refx.Error, match="history is gone"):
        t(rewrapped, reverse=True)


def test_reversing_an_untransformed_module_is_not_an_error():
    model, _ = zoo.make("resnet")
    gm = trace(model)
    before = Snapshot(gm)
    MergeLinears()(gm, reverse=True)
    reverse(gm)
    Snapshot(gm).assert_equals(before)
    with pytest.raises(refx.Error, match="history is empty"):
        reverse(gm, "merge-linears")
