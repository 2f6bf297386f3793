# SPDX-License-Identifier: Apache-2.0
"""Every transformation on every model: the source untouched, outputs right, undo exact."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp

import zoo
from kit import Snapshot, assert_close_to_double, trace
from refx.fx import (
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm1dInLinear,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    compose,
    explain,
    log,
    reverse,
)

ALL = (MergeLinears, FuseBiasInLinear, ChangeTrueDivToMulByInverse, FuseBatchNorm2dInConv2d,
       FuseBatchNorm1dInLinear)

SITES = {  # how many steps each transformation takes, in the order of ALL
    "encoder": (2, 13, 2, 0, 0),
    "decoder": (2, 1, 1, 0, 0),
    "vit": (1, 6, 2, 0, 0),
    "resnet": (0, 1, 0, 7, 0),
    "mobilenet": (0, 0, 0, 5, 0),
    "mlp": (0, 1, 0, 0, 3),
    "functional": (1, 1, 3, 1, 0),
}


def everything():
    return compose(*(cls() for cls in ALL))


@pytest.mark.parametrize("name", zoo.MODELS)
@pytest.mark.parametrize("cls", [*ALL, everything])
def test_transform_and_reverse(name, cls):
    model, inputs = zoo.make(name)
    source, reference = Snapshot(model), trace(zoo.make(name)[0])
    gm = trace(model)
    if name == "functional":
        ShapeProp(gm).propagate(*inputs)  # its convolution might have no batch
    before, code = Snapshot(gm), gm.code
    random = torch.get_rng_state()

    transformation = cls()
    assert transformation(gm) is gm
    if cls is not everything:
        assert len(log(gm)) == SITES[name][ALL.index(cls)]
    assert_close_to_double(gm, reference, inputs)
    Snapshot(model).assert_equals(source)

    assert transformation(gm, reverse=True) is gm
    Snapshot(gm).assert_equals(before)
    assert gm.code == code
    assert torch.equal(torch.get_rng_state(), random)
    Snapshot(model).assert_equals(source)


class Unbatched(nn.Module):
    """Its input has as many rows as channels, so that the batch norm takes the rows for channels."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)
        torch.nn.init.normal_(self.norm.running_mean)

    def forward(self, x):
        norm = self.norm
        y = F.conv2d(x, self.conv.weight, self.conv.bias)
        return F.batch_norm(y, norm.running_mean, norm.running_var, norm.weight, norm.bias)


@pytest.mark.parametrize("propagated", [False, True])
def test_a_convolution_without_a_batch_is_not_folded(propagated):
    x, gm = torch.randn(4, 4, 4), trace(Unbatched())
    if propagated:
        ShapeProp(gm).propagate(x)
    result = gm(x)
    assert not log(FuseBatchNorm2dInConv2d()(gm))
    assert torch.equal(gm(x), result)


@pytest.mark.parametrize("name", zoo.MODELS)
def test_steps_are_reversed_in_any_order(name):
    model, inputs = zoo.make(name)
    gm = trace(model)
    before = Snapshot(gm)
    reference = trace(zoo.make(name)[0])
    generator = torch.Generator().manual_seed(1)
    for _ in range(2):
        everything()(gm)
        while steps := log(gm):
            chosen = steps[torch.randint(len(steps), (), generator=generator)]
            reverse(gm, chosen)
            if len(steps) % 4 == 0:
                assert_close_to_double(gm, reference, inputs)
        Snapshot(gm).assert_equals(before)


@pytest.mark.parametrize("first, second", list(itertools.permutations(ALL, 2)))
def test_two_transformations_in_either_order(first, second):
    for name in ("vit", "resnet", "mlp", "functional"):
        model, inputs = zoo.make(name)
        gm = trace(model)
        before = Snapshot(gm)
        a, b = first(), second()
        b(a(gm))
        a(gm, reverse=True)
        assert_close_to_double(gm, trace(zoo.make(name)[0]), inputs)
        b(gm, reverse=True)
        Snapshot(gm).assert_equals(before)


@pytest.mark.parametrize("name", zoo.MODELS)
def test_a_second_application_finds_nothing(name):
    model, _ = zoo.make(name)
    gm = everything()(trace(model))
    steps = log(gm)
    assert everything()(gm) is gm
    assert [str(s) for s in log(gm)] == [str(s) for s in steps]
    assert not explain(everything(), gm).sites


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["encoder", "resnet", "mlp"])
def test_other_types(name, dtype):
    model, inputs = zoo.make(name)
    model = model.to(dtype)
    inputs = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
    reference = trace(zoo.make(name)[0].to(dtype))
    gm = trace(model)
    before = Snapshot(gm)
    everything()(gm)
    assert {p.dtype for p in gm.parameters()} == {dtype}
    assert_close_to_double(gm, reference, inputs)
    everything()(gm, reverse=True)
    Snapshot(gm).assert_equals(before)


def test_channels_last_stays():
    model, inputs = zoo.make("resnet")
    model = model.to(memory_format=torch.channels_last)
    gm = trace(model)
    before = Snapshot(gm)
    t = FuseBatchNorm2dInConv2d()
    t(gm)
    assert gm.stem.get_submodule("0").weight.is_contiguous(memory_format=torch.channels_last)
    t(gm, reverse=True)
    Snapshot(gm).assert_equals(before)
