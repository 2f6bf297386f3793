# SPDX-License-Identifier: Apache-2.0
"""Rewrites of a model that is not loaded: its parameters are on the meta device."""

import copy
import pickle

import pytest
import torch

import refx.fx
import zoo
from kit import Snapshot, assert_close_to_double, trace
from refx.fx import (
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    compose,
    explain,
    log,
)


def planned(name="encoder"):
    model, inputs = zoo.make(name)
    with torch.device("meta"):
        gm = trace(copy.deepcopy(model).to("meta"))
    return gm, model, inputs


class Plan:
    """A snapshot without bits."""

    def __init__(self, gm):
        self.code = gm.code
        self.tensors = [(n, id(t), t.shape, t.stride(), t.dtype, t.device, t.requires_grad)
                        for n, t in gm.state_dict(keep_vars=True).items()]
        self.modules = [(n, id(m)) for n, m in gm.named_modules() if n]

    def __eq__(self, other):
        return vars(self) == vars(other)


EVERYTHING = [MergeLinears(), FuseBiasInLinear(), compose(MergeLinears(), FuseBiasInLinear())]


@pytest.mark.parametrize("t", EVERYTHING)
def test_linears_without_data(t):
    gm, model, inputs = planned()
    before = Plan(gm)
    real = t(trace(model))
    t(gm)
    assert gm.code == real.code and log(gm)
    assert all(tensor.is_meta for tensor in gm.state_dict().values())
    shapes = {name: tensor.shape for name, tensor in gm.state_dict().items()}
    assert shapes == {name: tensor.shape for name, tensor in real.state_dict().items()}
    for other in (copy.deepcopy(gm), pickle.loads(pickle.dumps(gm))):
        t(other, reverse=True)
        assert other.code == before.code
    t(gm, reverse=True)
    assert Plan(gm) == before


@pytest.mark.parametrize("t", EVERYTHING)
def test_loaded_into_the_plan_and_taken_back(t):
    gm, model, inputs = planned()
    t(gm)
    gm.to_empty(device="cpu")
    gm.load_state_dict(t(trace(copy.deepcopy(model))).state_dict())
    assert_close_to_double(gm, model, inputs)
    t(gm, reverse=True)
    plain = trace(model)
    assert gm.code == plain.code and list(gm.state_dict()) == list(plain.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(gm.state_dict().values(), plain.state_dict().values()))
    assert [p.requires_grad for p in gm.parameters()] == [p.requires_grad for p in plain.parameters()]


def test_a_division_needs_no_data_but_a_fold_does():
    gm, model, inputs = planned()
    assert ChangeTrueDivToMulByInverse()(gm).code == ChangeTrueDivToMulByInverse()(trace(model)).code
    gm, model, inputs = planned("resnet")
    refusals = explain(FuseBatchNorm2dInConv2d(), gm).refusals
    assert refusals and all("has no data (meta device)" in refusal.reason for refusal in refusals)
    FuseBatchNorm2dInConv2d()(gm)
    assert not refx.fx.log(gm)


def test_one_that_is_loaded_is_not_merged_with_one_that_is_not():
    gm, model, inputs = planned()
    gm.get_submodule("layers.0.attention.query").to_empty(device="cpu")
    names = [step.site for step in log(MergeLinears()(gm))]
    assert "layers.0.attention.{key,value}" in names
    Snapshot(gm.get_submodule("layers.0.attention.query"))
