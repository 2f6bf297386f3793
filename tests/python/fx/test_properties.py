# SPDX-License-Identifier: Apache-2.0
"""Random torch.fx graphs, random transformations, undone in random orders, with copies in between."""

import copy
import operator
import pickle

import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from kit import Snapshot, assert_close_to_double
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

ALL = (MergeLinears, FuseBiasInLinear, ChangeTrueDivToMulByInverse, FuseBatchNorm2dInConv2d,
       FuseBatchNorm1dInLinear)
WIDTH = 4

KINDS = ("linear", "linear", "linear", "again", "functional", "norm", "relu", "relu_", "div", "add",
         "view", "cat")


@st.composite
def graphs(draw):
    """A graph over matrices with WIDTH columns; values are used any number of times, or never."""
    torch.manual_seed(draw(st.integers(0, 1000)))
    root, graph = nn.Module(), torch.fx.Graph()
    values = [graph.call_module("flatten", (graph.placeholder("x"),))]
    root.flatten = nn.Flatten()
    linears = []
    for i in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(KINDS))
        x = draw(st.sampled_from(values[-4:]))
        if kind == "linear" or (kind == "again" and not linears):
            linear = nn.Linear(WIDTH, WIDTH, bias=draw(st.booleans()))
            if draw(st.integers(0, 9)) == 0:
                linear.requires_grad_(False)
            parent = draw(st.sampled_from(["", "block."]))
            if parent and not hasattr(root, "block"):
                root.block = nn.Module()
            (root.block if parent else root).add_module(f"fc{i}", linear)
            linears.append(f"{parent}fc{i}")
            values.append(graph.call_module(linears[-1], (x,)))
        elif kind == "again":
            values.append(graph.call_module(draw(st.sampled_from(linears)), (x,)))
        elif kind == "functional":
            root.register_parameter(f"w{i}", nn.Parameter(torch.randn(WIDTH, WIDTH)))
            values.append(graph.call_function(F.linear, (x, graph.get_attr(f"w{i}"))))
        elif kind == "norm":
            norm = nn.BatchNorm1d(WIDTH).eval()
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            root.add_module(f"bn{i}", norm)
            values.append(graph.call_module(f"bn{i}", (x,)))
        elif kind == "relu":
            values.append(graph.call_function(torch.relu, (x,)))
        elif kind == "relu_":
            values.append(graph.call_function(F.relu, (graph.call_method("clone", (x,)),), {"inplace": True}))
        elif kind == "div":
            c = draw(st.sampled_from([3, 7.0, 49, 0.1, -2]))
            values.append(graph.call_function(operator.truediv, (x, c)))
        elif kind == "add":
            values.append(graph.call_function(torch.add, (x, draw(st.sampled_from(values)))))
        elif kind == "view":
            values.append(graph.call_method("view", (x, -1, WIDTH)))
        else:
            both = graph.call_function(torch.cat, ([x, x], 1))
            values.append(graph.call_function(operator.getitem, (both, (Ellipsis, slice(0, WIDTH)))))
    outputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    graph.output((values[-1], *outputs))
    return torch.fx.GraphModule(root, graph).eval()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), st.data())
def test_any_order(gm, data):
    inputs = (torch.randn(3, WIDTH),)
    reference = copy.deepcopy(gm)
    before = Snapshot(gm)
    parts = data.draw(st.lists(st.sampled_from(ALL), min_size=1, max_size=4))
    compose(*(part() for part in parts))(gm)
    assert_close_to_double(gm, reference, inputs, slack=300)
    while steps := log(gm):
        step = data.draw(st.sampled_from(steps))
        reverse(gm, step, dependents=data.draw(st.sampled_from(["reapply", "cascade"])))
        if data.draw(st.integers(0, 3)) == 0:
            assert_close_to_double(gm, reference, inputs, slack=300)
    Snapshot(gm).assert_equals(before)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), st.data())
def test_through_copies(gm, data):
    inputs = (torch.randn(3, WIDTH),)
    expected, keys = gm(*inputs), list(gm.state_dict())
    parts = data.draw(st.lists(st.sampled_from(ALL), min_size=1, max_size=3))
    composed = compose(*(part() for part in parts))
    composed(gm)
    copied = data.draw(st.sampled_from([copy.deepcopy, lambda gm: pickle.loads(pickle.dumps(gm))]))
    other = copied(gm)
    assert [str(s) for s in log(other)] == [str(s) for s in log(gm)]
    composed(other, reverse=True)
    assert sorted(other.state_dict()) == sorted(keys)
    assert all(torch.equal(a, b) for a, b in zip(other(*inputs), expected))
