# SPDX-License-Identifier: Apache-2.0
"""Where a rewrite could change a result it is refused, with a reason, and nothing changes."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

import refx.fx
from kit import Snapshot, assert_close_to_double, trace
from refx.fx import (
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm1dInLinear,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    explain,
    log,
)
from zoo import randomize


class Pair(nn.Module):
    def __init__(self, a=None, b=None):
        super().__init__()
        self.a, self.b = a or nn.Linear(4, 4), b or nn.Linear(4, 4)

    def forward(self, x):
        return self.a(x) + self.b(x)


class ConvNorm(nn.Module):
    def __init__(self, conv=None, norm=None):
        super().__init__()
        self.conv, self.norm = conv or nn.Conv2d(2, 3, 1), norm or nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(self.conv(x))


def hooked():
    linear = nn.Linear(4, 4)
    linear.register_forward_hook(lambda module, args, output: output * 2)
    return linear


def grad_hooked():
    linear = nn.Linear(4, 4)
    linear.weight.register_hook(lambda grad: grad * 2)
    return linear


class MyLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


def own_forward():
    linear = nn.Linear(4, 4)
    linear.forward = lambda x: F.linear(x, linear.weight) * 3
    return linear


def with_extra():
    linear = nn.Linear(4, 4)
    linear.register_parameter("lora", nn.Parameter(torch.ones(4)))
    return linear


def frozen():
    return nn.Linear(4, 4).requires_grad_(False)


class Tracer(torch.fx.Tracer):
    """Linears are leaves, also those that are not torch's own."""

    def is_leaf_module(self, module, name):
        return isinstance(module, nn.Linear) or super().is_leaf_module(module, name)


def traced(model):
    return torch.fx.GraphModule(model, Tracer().trace(model))


def assert_refused(transformation, gm, reason):
    before = Snapshot(gm)
    found = explain(transformation, gm)
    assert not found.sites
    assert any(reason in refusal.reason for refusal in found.refusals), str(found)
    transformation(gm)
    Snapshot(gm).assert_equals(before)


@pytest.mark.parametrize("make, reason", [
    (hooked, "has hooks"), (grad_hooked, "has a hook on its weight"),
    (lambda: MyLinear(4, 4), "a class derived from torch.nn.Linear"),
    (own_forward, "a forward of its own"), (with_extra, "a tensor 'lora' of its own"),
    (lambda: parametrizations.weight_norm(nn.Linear(4, 4)), "derived from torch.nn.Linear"),
])
def test_a_module_that_is_more_than_its_type(make, reason):
    assert_refused(FuseBiasInLinear(), traced(nn.Sequential(make())), reason)
    assert not explain(MergeLinears(), traced(Pair(make()))).sites


@pytest.mark.parametrize("other, reason", [
    (frozen, "requires_grad differs"), (lambda: nn.Linear(4, 4).double(), "different dtypes"),
])
def test_linears_that_do_not_go_together(other, reason):
    assert_refused(MergeLinears(), trace(Pair(b=other())), reason)


def test_shared_and_tied():
    linear = nn.Linear(4, 4)
    assert_refused(MergeLinears(), trace(Pair(linear, linear)), "more than one place")
    tied = Pair()
    tied.b.weight = tied.a.weight
    assert_refused(MergeLinears(), trace(tied), "shares its memory")
    gm = trace(Pair())
    gm.register_parameter("elsewhere", gm.a.weight)  # not used by the graph
    assert_refused(MergeLinears(), gm, "shares its memory")


def test_a_write_in_between():
    class Model(Pair):
        def forward(self, x):
            y = self.a(x)
            x.add_(1)
            return y + self.b(x)

    assert_refused(MergeLinears(), trace(Model()), "written in place")


def test_a_leaf_inside_a_leaf():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            return self.inner(x)

    root = nn.Module()
    root.outer = Outer()
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("outer.inner", (graph.call_module("outer", (x,)),)))
    assert_refused(FuseBiasInLinear(), torch.fx.GraphModule(root, graph), "which is called too")


def test_batch_norm_corners():
    t = FuseBatchNorm2dInConv2d()
    assert_refused(t, trace(ConvNorm()), "training mode")
    no_statistics = ConvNorm(norm=nn.BatchNorm2d(3, track_running_stats=False)).eval()
    assert_refused(t, trace(no_statistics), "no running statistics")
    zero = ConvNorm(norm=nn.BatchNorm2d(3, eps=0)).eval()
    zero.norm.running_var[1] = 0
    assert_refused(t, trace(zero), "var + eps")

    class Returned(ConvNorm):
        def forward(self, x):
            y = self.conv(x)
            return self.norm(y), y

    assert_refused(t, trace(Returned().eval()), "used by nodes other than the batch norm")
    # An unknown number of dimensions: BatchNorm1d may normalise the second of three.
    unknown = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    assert_refused(FuseBatchNorm1dInLinear(), trace(unknown), "dimensions")


@pytest.mark.parametrize("name", ["FuseBatchNormInConv1d", "batch-norm-in-conv-1d"])
def test_batch_norm_after_a_convolution_of_sequences(name):
    from torch.fx.passes.shape_prop import ShapeProp

    model = randomize(nn.Sequential(nn.Conv1d(5, 6, 3), nn.BatchNorm1d(6))).eval()
    gm, x = trace(model), torch.randn(3, 5, 8)
    t = getattr(refx.fx, name)() if name[0] == "F" else refx.fx.Rule(name)  # it was a rule once
    # Without a batch dimension, the norm would apply to the length if it equals the channels.
    assert_refused(t, trace(model), "not known to have a batch dimension")
    ShapeProp(gm).propagate(x)
    before = Snapshot(gm)
    gm = t(gm)
    assert list(gm.state_dict()) == ["0.weight", "0.bias"]
    assert_close_to_double(gm, model, [x])
    before.assert_equals(Snapshot(t(gm, reverse=True)))


def test_shapes_make_it_legal():
    from torch.fx.passes.shape_prop import ShapeProp

    gm = trace(randomize(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))).eval())
    reference = copy.deepcopy(gm)
    ShapeProp(gm).propagate(torch.randn(3, 4))
    before = Snapshot(gm)
    t = FuseBatchNorm1dInLinear()
    t(gm)
    assert len(log(gm)) == 1
    assert_close_to_double(gm, reference, (torch.randn(3, 4),))
    t(gm, reverse=True)
    Snapshot(gm).assert_equals(before)


@pytest.mark.parametrize("function, sites", [
    (lambda x: x / 49, 1), (lambda x: torch.div(x, 7), 1), (lambda x: x.div(2.5), 1),
    (lambda x: torch.div(x, 4, rounding_mode=None), 1), (lambda x: x / 0, 0),
    (lambda x: torch.div(x, 2, rounding_mode="floor"), 0), (lambda x: x.size(0) / 2 + x, 0),
    (lambda x: x / x.sum(), 0), (lambda x: x / 1e-45, 0), (lambda x: x / float("inf"), 0),
    (lambda x: 3 / x, 0), (lambda x: x // 3, 0), (lambda x: x.clone().div_(3), 0),
])
def test_divisions(function, sites):
    class Model(nn.Module):
        def forward(self, x):
            return function(x)

    gm = trace(Model())
    reference, before = trace(Model()), Snapshot(gm)
    t = ChangeTrueDivToMulByInverse()
    t(gm)
    assert len(log(gm)) == sites
    x = torch.rand(3, 4) + 0.5
    torch.testing.assert_close(gm(x), reference(x))
    t(gm, reverse=True)
    Snapshot(gm).assert_equals(before)  # 7 is 7 again, not 7.0


def test_hooks_ties_and_modes_elsewhere_return():
    model = nn.Sequential(Pair(), nn.Dropout(0.5), Pair())
    model[2].a.eval()
    gm = trace(model)
    gm.register_buffer("extra", torch.ones(2), persistent=False)
    gm.get_submodule("1").register_forward_hook(print)
    before = Snapshot(gm)
    t = MergeLinears()
    t(gm)
    merged = gm.get_submodule("0.a-b-merged")
    assert merged.training
    t(gm, reverse=True)
    Snapshot(gm).assert_equals(before)


def test_at_the_root_and_by_keyword():
    class Model(Pair):
        def forward(self, x):
            return self.a(input=x) + self.b(x)

    gm = trace(Model())
    before = Snapshot(gm)
    reference = trace(copy.deepcopy(Model()))
    MergeLinears()(gm)
    assert "a-b-merged" in gm._modules
    MergeLinears()(gm, reverse=True)
    Snapshot(gm).assert_equals(before)
    del reference


def test_containers_that_are_shared_are_copied():
    model = nn.Sequential(Pair(), nn.ReLU())
    source = Snapshot(model)
    gm = trace(model)
    gm.add_module("0", model[0])  # the source's own container
    before = Snapshot(gm)
    t = MergeLinears()
    t(gm)
    Snapshot(model).assert_equals(source)
    assert "a-b-merged" not in model[0]._modules
    t(gm, reverse=True)
    Snapshot(gm).assert_equals(before)
