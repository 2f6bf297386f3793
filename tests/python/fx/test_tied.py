# SPDX-License-Identifier: Apache-2.0
"""Two convolutions that share one weight, each with a batch norm of its own."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import refx
from kit import Snapshot, assert_close_to_double, trace
from refx.fx import FuseBatchNorm1dInLinear, FuseBatchNorm2dInConv2d, explain, log, reverse

FUSE = FuseBatchNorm2dInConv2d()
X = torch.randn(2, 3, 6, 6)


def norm(seed, make=nn.BatchNorm2d, width=4):
    bn, rng = make(width), torch.Generator().manual_seed(seed)
    for tensor in (bn.weight, bn.bias, bn.running_mean, bn.running_var):
        tensor.data.copy_(torch.rand(width, generator=rng) + 0.5)
    return bn


class Tied(nn.Module):
    """Two modules, one Parameter; the biases are shared too, or there are none."""

    def __init__(self, bias=False):
        super().__init__()
        self.a, self.b = (nn.Conv2d(3, 4, 3, bias=bias) for _ in range(2))
        self.b.weight, self.b.bias = self.a.weight, self.a.bias
        self.an, self.bn = norm(1), norm(2)

    def forward(self, x):
        return self.an(self.a(x)) + self.bn(self.b(x))


class Functional(nn.Module):
    """One tensor that two functions read."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 3, 3, 3)), nn.Parameter(torch.randn(4))
        self.an, self.bn = norm(1), norm(2)

    def forward(self, x):
        return self.an(F.conv2d(x, self.weight)) + self.bn(F.conv2d(x, self.weight, self.bias))


MODELS = [Tied, lambda: Tied(bias=True), Functional]


def exported(model):
    return torch.export.export(model, (X,)).module(check_guards=False)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("traced", [trace, exported])
def test_both_are_folded_and_come_back_sharing_it(make, traced):
    model = make().eval()
    gm = traced(model)
    before = Snapshot(gm)
    FUSE(gm)
    assert len(log(gm)) == 2
    assert not any("batch_norm" in str(n.target) or "n" in str(n.target).split(".") for n in gm.graph.nodes)
    assert_close_to_double(gm, model, [X])
    for copied in copy.deepcopy(gm), (pickle.loads(pickle.dumps(gm)) if traced is trace else gm):
        if copied is gm:
            continue
        FUSE(copied, reverse=True)
        assert_close_to_double(copied, model, [X])
        tensors = list(copied.named_parameters(remove_duplicate=False))
        places = [t.untyped_storage()._cdata for _, t in tensors]
        assert len(set(places)) < len(places) or make is Functional or traced is exported
    FUSE(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("traced", [trace, exported])
@pytest.mark.parametrize("first", [0, 1])
def test_one_after_the_other(make, traced, first):
    model = make().eval()
    gm = traced(model)
    before = Snapshot(gm)
    FUSE(gm)
    steps = log(gm)
    reverse(gm, steps[first])
    assert len(log(gm)) == 1
    assert_close_to_double(gm, model, [X])
    reverse(gm)
    before.assert_equals(Snapshot(gm))


def test_with_linears():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(3, 4)
            self.b.weight = self.a.weight
            self.an, self.bn = norm(1, nn.BatchNorm1d), norm(2, nn.BatchNorm1d)

        def forward(self, x):
            x = torch.flatten(x, 1)
            return self.an(self.a(x)) + self.bn(self.b(x))

    model = Net().eval()
    gm = trace(model)
    before = Snapshot(gm)
    FuseBatchNorm1dInLinear()(gm)
    assert len(log(gm)) == 2
    assert_close_to_double(gm, model, [torch.randn(5, 3)])
    FuseBatchNorm1dInLinear()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


def test_a_third_user_keeps_the_weight():
    class Net(Tied):
        def forward(self, x):
            return super().forward(x) + F.conv2d(x, self.c) + self.d(x)

        def __init__(self):
            super().__init__()
            self.c = self.a.weight
            self.d = nn.Conv2d(3, 4, 3)
            self.d.weight = self.a.weight

    model = Net().eval()
    gm = trace(model)
    before = Snapshot(gm)
    FUSE(gm)
    assert len(log(gm)) == 2 and gm.c is model.c and gm.d.weight is model.c
    assert gm.a.weight is not model.c and gm.b.weight is not gm.a.weight
    assert_close_to_double(gm, model, [X])
    FUSE(gm, reverse=True)
    before.assert_equals(Snapshot(gm))
    assert gm.a.weight is gm.b.weight is gm.c


def test_one_that_someone_may_write_is_left_alone():
    class Writes(Tied):
        def __init__(self):
            super().__init__()
            self.c = self.a.weight

        def forward(self, x):
            y = super().forward(x)
            torch.relu_(self.c.detach())
            return y

    class Returns(Tied):
        def __init__(self):
            super().__init__()
            self.c = self.a.weight

        def forward(self, x):
            return super().forward(x), self.c

    for cls in Writes, Returns:
        found = explain(FUSE, trace(cls().eval()))
        assert not found.sites and len(found.refusals) == 2
        assert all("and may be written" in refusal.reason for refusal in found.refusals)


def test_a_module_of_ones_own_that_has_it_is_not_known():
    class Own(nn.Conv2d):
        pass

    model = Tied().eval()
    model.b = Own(3, 4, 3, bias=False).eval()
    model.b.weight = model.a.weight
    found = explain(FUSE, torch.fx.GraphModule(model, Leaves(Own).trace(model)))
    assert not found.sites


class Leaves(torch.fx.Tracer):
    def __init__(self, *kinds):
        super().__init__()
        self.kinds = kinds

    def is_leaf_module(self, module, name):
        return isinstance(module, self.kinds) or super().is_leaf_module(module, name)


def test_trained_while_folded():
    gm = trace(Tied().eval())
    FUSE(gm)
    with torch.no_grad():
        gm.a.weight.mul_(2)
    with pytest.raises(refx.Error, match="changed since"):
        FUSE(gm, reverse=True)
    reverse(gm, discard_changes=True)
    assert gm.a.weight is gm.b.weight
