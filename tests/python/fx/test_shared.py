# SPDX-License-Identifier: Apache-2.0
"""Tensors that are used or written in ways that no schema describes are not rewritten."""

import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import refx.fx
from kit import trace

X = torch.randn(2, 4)


def transformed(gm):
    """Every transformation at once, and the outputs stay what they were."""
    inputs = [X.clone() for node in gm.graph.nodes if node.op == "placeholder"]
    expected = gm(*(x.clone() for x in inputs))
    for cls in (refx.fx.FuseBatchNorm2dInConv2d, refx.fx.FuseBatchNorm1dInLinear, refx.fx.MergeLinears,
                refx.fx.FuseBiasInLinear, refx.fx.ChangeTrueDivToMulByInverse):
        cls()(gm)
        torch.testing.assert_close(gm(*(x.clone() for x in inputs)), expected)
    return gm


def with_buffers(module):
    tracer = torch.fx.Tracer()
    tracer.proxy_buffer_attributes = True
    return torch.fx.GraphModule(module, tracer.trace(module))


class Functional(nn.Module):
    """The tensors of a module that is called, used by a function too."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        twice = F.linear(x, self.q.weight) + F.linear(x, self.k.weight, self.k.bias)
        return self.q(x + 1) + self.k(x + 2) + twice + F.linear(self.norm(x), self.weight, self.norm.bias)


def test_tensors_of_called_modules():
    gm = transformed(trace(Functional().eval()))
    reasons = refx.fx.explain(refx.fx.MergeLinears(), gm).refusals
    assert any("more than one place" in refusal.reason for refusal in reasons)
    refx.fx.reverse(gm)


class Divided(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.bn(x) / self.bn.running_var


def test_statistics_of_a_called_module():
    gm = transformed(with_buffers(Divided().eval()))
    assert not refx.fx.log(gm)


class Trains(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))

    def forward(self, x):
        return F.batch_norm(x, self.mean, self.var, None, None, True) / self.var


def test_statistics_that_a_function_writes():
    gm = with_buffers(Trains())
    refusals = refx.fx.explain(refx.fx.ChangeTrueDivToMulByInverse(), gm).refusals
    assert [refusal.reason for refusal in refusals] == ["the divisor 'var' may be written in place"]
    assert [refusal.code for refusal in refusals] == ["divisor-written"]


@pytest.mark.parametrize("through", [
    torch.atleast_1d, torch.conj_physical, torch.dequantize, operator.pos, "type_as", "to_dense",
    "sum_to_size", "resize_as", nn.FeatureAlphaDropout(), nn.Sequential(nn.ReLU(inplace=True))],
    ids=lambda t: getattr(t, "__name__", None) or str(t).partition("(")[0])
def test_writes_through_what_is_handed_through(through):
    """a(c); write to c through something; b(c): the two are not to be merged."""
    root = nn.Module()
    root.a, root.b = nn.Linear(4, 4), nn.Linear(4, 4)
    graph = torch.fx.Graph()
    c = graph.call_method("clone", (graph.placeholder("x"),))
    first = graph.call_module("a", (c,))
    if isinstance(through, nn.Module):
        root.through = through.eval()
        handed = graph.call_module("through", (c,))
    elif callable(through):
        handed = graph.call_function(through, (c,))
    else:
        more = {"sum_to_size": (2, 4), "type_as": (c,), "resize_as": (c,)}
        handed = graph.call_method(through, (c, *more.get(through, ())))
    graph.call_method("zero_", (handed,))
    graph.output((first, graph.call_module("b", (c,))))
    gm = transformed(torch.fx.GraphModule(root, graph))
    assert "merged" not in gm.code


@pytest.mark.parametrize("call", [lambda c: F.relu(c, 1), lambda c: F.elu(c, 1.0, 1)])
def test_in_place_by_a_number(call):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            c = x.clone()
            first = self.a(c)
            call(c)
            return first, self.b(c)

    graph = torch.fx.Tracer().trace(Net())
    gm = torch.fx.GraphModule(Net(), graph)
    assert "merged" not in transformed(gm).code
