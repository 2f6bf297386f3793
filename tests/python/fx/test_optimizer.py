# SPDX-License-Identifier: Apache-2.0
"""An optimizer keeps its state through a rewrite and its undo."""

import copy
import warnings

import pytest
import torch
from torch import nn

import refx
import zoo
from kit import flat, trace
from refx.fx import (
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    StaleOptimizer,
    StoreLinearTransposed,
    compose,
    remap_optimizer,
)


def step(gm, optimizer, inputs):
    optimizer.zero_grad()
    sum(t.square().mean() for t in flat(gm(*inputs))).backward()
    optimizer.step()


def named(gm):
    return dict(gm.named_parameters())


def state_by_name(gm, optimizer):
    return {name: {key: value.clone() for key, value in optimizer.state[p].items()}
            for name, p in gm.named_parameters() if p in optimizer.state}


# The gradient of a key's bias is zero but for rounding, which Adam would scale up: hence eps.
MAKERS = {
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01, eps=1e-3),
    "amsgrad": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, eps=1e-3, amsgrad=True),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
}
REWRITES = {
    "merge": MergeLinears,
    "fuse": FuseBiasInLinear,
    "both": lambda: compose(MergeLinears(), FuseBiasInLinear()),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("rewrite", REWRITES)
def test_training_through_a_rewrite_is_training_without(maker, rewrite):
    model, inputs = zoo.make("encoder")
    plain, gm = (trace(copy.deepcopy(model)) for _ in range(2))
    optimizers = [MAKERS[maker](m.parameters()) for m in (plain, gm)]
    t = REWRITES[rewrite]()
    for reverse in (False, True, None):
        for _ in range(2):
            step(plain, optimizers[0], inputs)
            step(gm, optimizers[1], inputs)
        if reverse is not None:
            before = named(gm)
            t(gm, reverse=reverse)
            remap_optimizer(optimizers[1], before, gm)
            held = {id(p) for group in optimizers[1].param_groups for p in group["params"]}
            assert held == {id(p) for p in gm.parameters()}
    expected, got = state_by_name(plain, optimizers[0]), state_by_name(gm, optimizers[1])
    assert expected.keys() == got.keys()
    for name in expected:
        torch.testing.assert_close(named(gm)[name], named(plain)[name], msg=name, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(got[name], expected[name], msg=name, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rewrite", REWRITES)
def test_state_there_and_back_has_the_same_bits(rewrite):
    model, inputs = zoo.make("encoder")
    gm = trace(model)
    optimizer = MAKERS["amsgrad"](gm.parameters())
    step(gm, optimizer, inputs)
    there = state_by_name(gm, optimizer)
    t = REWRITES[rewrite]()
    for reverse in (False, True):
        before = named(gm)
        t(gm, reverse=reverse)
        remap_optimizer(optimizer, before, gm)
    back = state_by_name(gm, optimizer)
    assert there.keys() == back.keys()
    for name, state in there.items():
        assert state.keys() == back[name].keys()
        assert all(torch.equal(state[key], back[name][key]) for key in state), name


def test_groups_stay_apart():
    model, _ = zoo.make("encoder")
    gm = trace(model)
    before = named(gm)
    weights = [p for name, p in before.items() if name.endswith("weight")]
    biases = [p for name, p in before.items() if name.endswith("bias")]
    optimizer = torch.optim.SGD([{"params": weights, "lr": 1.0}, {"params": biases, "lr": 2.0}])
    MergeLinears()(gm)
    remap_optimizer(optimizer, before, gm)
    names = {id(p): name for name, p in gm.named_parameters()}
    for group, kind in zip(optimizer.param_groups, ("weight", "bias")):
        assert all(names[id(p)].endswith(kind) for p in group["params"])
    before = named(gm)
    FuseBiasInLinear()(gm)
    groups = [list(group["params"]) for group in optimizer.param_groups]
    with pytest.raises(refx.Error, match="in different parameter groups; make a new optimizer"):
        remap_optimizer(optimizer, before, gm)
    for group, then in zip(optimizer.param_groups, groups):  # nothing was changed
        assert all(a is b for a, b in zip(group["params"], then))


def test_what_was_folded_is_refused():
    model, inputs = zoo.make("resnet")
    gm = trace(model)
    before = named(gm)
    optimizer = MAKERS["adam"](gm.parameters())
    FuseBatchNorm2dInConv2d()(gm)
    with pytest.raises(refx.Error, match="was computed from several weights"):
        remap_optimizer(optimizer, before, gm)
    folded, optimizer = named(gm), MAKERS["adam"](gm.parameters())
    FuseBatchNorm2dInConv2d()(gm, reverse=True)
    with pytest.raises(refx.Error, match="was computed from several weights"):
        remap_optimizer(optimizer, folded, gm)


def test_an_optimizer_of_others_is_refused():
    gm = trace(nn.Sequential(nn.Linear(4, 4)))
    optimizer = MAKERS["adam"](nn.Linear(2, 2).parameters())
    with pytest.raises(refx.Error, match="not in `before`"):
        remap_optimizer(optimizer, gm, gm)


def test_a_stale_optimizer_warns_once():
    model, inputs = zoo.make("encoder")
    gm = trace(model)
    optimizer = MAKERS["adam"](gm.parameters())
    before = named(gm)
    MergeLinears()(gm)
    with pytest.warns(StaleOptimizer, match="remap_optimizer"):
        step(gm, optimizer, inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(gm, optimizer, inputs)
        remap_optimizer(optimizer, before, gm)
        step(gm, optimizer, inputs)
    MergeLinears()(gm, reverse=True)
    with pytest.warns(StaleOptimizer):
        step(gm, optimizer, inputs)


def test_the_model_that_was_traced_trains_without_a_warning():
    model, inputs = zoo.make("encoder")
    optimizer = MAKERS["adam"](model.parameters())
    gm = trace(model)
    MergeLinears()(gm)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(model, optimizer, inputs)


class Six(nn.Module):
    """Layers before and after those that are merged."""

    def __init__(self):
        super().__init__()
        self.first, self.q, self.k, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x)
        return self.last(self.q(x) * self.k(x))


def test_a_group_in_the_order_of_the_model_stays_in_it():
    gm, x = trace(Six()), torch.randn(5, 4)
    adam = torch.optim.Adam(gm.parameters())
    step(gm, adam, (x,))
    for reverse in (False, True):
        before = named(gm)
        MergeLinears()(gm, reverse=reverse)
        remap_optimizer(adam, before, gm)
        assert [id(p) for p in adam.param_groups[0]["params"]] == [id(p) for p in gm.parameters()]
        step(gm, adam, (x,))


def test_an_order_of_ones_own_is_kept():
    gm = trace(Six())
    sgd = torch.optim.SGD([*gm.last.parameters(), *gm.first.parameters(), *gm.q.parameters(), *gm.k.parameters()], lr=1)
    first = [id(p) for p in (gm.last.weight, gm.last.bias, gm.first.weight, gm.first.bias)]
    before = named(gm)
    MergeLinears()(gm)
    remap_optimizer(sgd, before, gm)
    assert [id(p) for p in sgd.param_groups[0]["params"]][:4] == first


def test_lbfgs_is_refused():
    gm = trace(Six())
    optimizer = torch.optim.LBFGS(gm.parameters())
    before = named(gm)
    MergeLinears()(gm)
    with pytest.raises(refx.Error, match="LBFGS keeps one vector for all parameters; make a new optimizer"):
        remap_optimizer(optimizer, before, gm)


@pytest.mark.parametrize("clear", [lambda gm, optimizer: gm.zero_grad(),
                                   lambda gm, optimizer: optimizer.zero_grad(set_to_none=False),
                                   lambda gm, optimizer: optimizer.zero_grad()], ids=["module", "zeros", "none"])
def test_a_stale_optimizer_warns_however_gradients_are_cleared(clear):
    gm, x = trace(Six()), torch.randn(5, 4)
    sgd = torch.optim.SGD(gm.parameters(), lr=0.1)
    step(gm, sgd, (x,))
    MergeLinears()(gm)
    clear(gm, sgd)
    gm(x).square().mean().backward()
    with pytest.warns(StaleOptimizer, match="4 of the optimizer's 8 parameters"):
        sgd.step()


def test_the_optimizer_of_the_traced_model_does_not_warn():
    model, x = Six(), torch.randn(5, 4)
    gm = trace(model)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    MergeLinears()(gm)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            step(model, sgd, (x,))


def test_an_optimizer_of_a_folded_batch_norm_warns():
    model, inputs = zoo.make("resnet")
    gm = trace(model.eval())
    sgd = torch.optim.SGD(gm.parameters(), lr=0.1)
    FuseBatchNorm2dInConv2d()(gm)
    sum(t.square().mean() for t in flat(gm(*inputs))).backward()
    with pytest.warns(StaleOptimizer):
        sgd.step()


@pytest.mark.parametrize("rewrite", [compose(MergeLinears(), FuseBiasInLinear()),
                                     compose(MergeLinears(), FuseBiasInLinear(), StoreLinearTransposed())],
                         ids=["two", "three"])
def test_freezing_a_weight_that_several_steps_made_reaches_its_originals(rewrite):
    gm = rewrite(trace(Six()))
    gm.requires_grad_(False)
    refx.fx.reverse(gm)
    assert [name for name, p in gm.named_parameters() if p.requires_grad] == []
