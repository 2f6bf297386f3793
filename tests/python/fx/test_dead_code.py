# SPDX-License-Identifier: Apache-2.0
"""Nodes that other code removed because they were unused return when the step that made them is undone."""

import copy
import pickle

import pytest
import torch
from torch import nn

import refx
from kit import Snapshot, trace
from refx.fx import ChangeTrueDivToMulByInverse, MergeLinears, log, reverse


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 4)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        k = k / 3.0
        return q + v


X = torch.randn(2, 4)


def merged():
    gm = trace(Net())
    before = Snapshot(gm)
    return MergeLinears()(gm), before


def test_a_dead_slice():
    gm, before = merged()
    nodes = len(gm.graph.nodes)
    assert gm.graph.eliminate_dead_code()
    gm.recompile()
    assert len(gm.graph.nodes) == nodes - 2  # the division too
    expected = Net.forward(gm, X) if hasattr(gm, "q") else gm(X)
    MergeLinears()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))
    torch.testing.assert_close(gm(X), expected)
    assert not log(gm)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda gm: pickle.loads(pickle.dumps(gm))])
@pytest.mark.parametrize("read", [True, False])
def test_in_a_copy(copied, read):
    gm, before = merged()
    code = trace(Net()).code
    gm.graph.eliminate_dead_code()
    gm.recompile()
    if read:
        log(gm)
    other = copied(gm)
    MergeLinears()(other, reverse=True)
    assert other.code == code and {"q", "k", "v"} <= dict(other.named_children()).keys()
    MergeLinears()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


def test_of_two_steps_either_first():
    for what in ("merge-linears", "change-true-div-to-mul-by-inverse"):
        gm, before = merged()
        ChangeTrueDivToMulByInverse()(gm)
        gm.graph.eliminate_dead_code()
        gm.recompile()
        reverse(gm, what)
        gm.graph.lint()
        gm(X)
        assert len(log(gm)) == 1
        reverse(gm)
        before.assert_equals(Snapshot(gm))


def test_what_does_more_than_compute_is_not_brought_back():
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            q, k = self.q(x), self.k(x)
            torch.relu_(q)
            return q + k

    gm = MergeLinears()(trace(Writes()))
    for node in reversed(gm.graph.nodes):
        if node.target is torch.relu_ or (not node.users and node.op == "call_function"):
            gm.graph.erase_node(node)
    gm.recompile()
    expected = gm(X)
    MergeLinears()(gm, reverse=True)  # which nobody stands in the way of
    torch.testing.assert_close(gm(X), expected)
    assert torch.relu_ not in {node.target for node in gm.graph.nodes}


def test_other_changes_still_stand_in_the_way():
    gm, _ = merged()
    gm.graph.eliminate_dead_code()
    output = next(node for node in gm.graph.nodes if node.op == "output")
    v = next(node for node in gm.graph.nodes if node.name == "v")
    output.args = (v,)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    with pytest.raises(refx.Error, match="changed since by others"):
        MergeLinears()(gm, reverse=True)
