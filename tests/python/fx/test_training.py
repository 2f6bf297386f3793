# SPDX-License-Identifier: Apache-2.0
"""A transformed GraphModule trains, and undo returns the trained weights."""

import copy
import pickle

import pytest
import torch
from torch import nn

import refx
import zoo
from kit import Snapshot, flat, trace
from refx.fx import (
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    NothingReversed,
    compose,
    reverse,
)


def step(gm, inputs, rate=0.1):
    optimizer = torch.optim.SGD(gm.parameters(), lr=rate)
    sum(t.square().mean() for t in flat(gm(*inputs))).backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("make", [MergeLinears, FuseBiasInLinear,
                                  lambda: compose(MergeLinears(), FuseBiasInLinear())])
def test_trained_weights_return(make):
    model, inputs = zoo.make("encoder")
    query = model.layers[0].attention.query.weight.clone()
    plain, gm = trace(copy.deepcopy(model)), trace(model)
    keys = list(gm.state_dict())
    t = make()
    t(gm)
    for _ in range(2):
        step(plain, inputs)
        step(gm, inputs)
    t(gm, reverse=True)
    assert torch.equal(model.layers[0].attention.query.weight, query)  # gm had its own by then
    assert list(gm.state_dict()) == keys
    for (name, a), b in zip(gm.state_dict().items(), plain.state_dict().values()):
        torch.testing.assert_close(a, b, msg=name)
        assert a.requires_grad == b.requires_grad
    storages = [p.untyped_storage().data_ptr() for p in gm.parameters()]
    assert len(set(storages)) == len(storages)  # no views of the merged weight


def test_nothing_says_that_refx_made_it_after_undo():
    gm = trace(nn.Sequential(nn.Linear(4, 4)))
    t = FuseBiasInLinear()
    t(gm)
    step(gm, (torch.randn(2, 4),))
    t(gm, reverse=True)
    with pytest.warns(NothingReversed):
        t(gm, reverse=True)


def test_nothing_says_so_when_steps_were_applied_again():
    """Reversing the merge fuses the parts anew; undoing that leaves nothing of refx."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.q(x) + self.k(x) * 2

    gm = trace(Net())
    before = Snapshot(gm, objects=False)
    compose(MergeLinears(), FuseBiasInLinear())(gm)
    with torch.no_grad():
        for parameter in gm.parameters():
            parameter.mul_(2)
    reverse(gm, "merge-linears")
    reverse(gm)
    assert Snapshot(gm, objects=False).modules == before.modules


def test_the_split_is_exact():
    model, inputs = zoo.make("encoder")
    gm = trace(model)
    t = MergeLinears()
    t(gm)
    step(gm, inputs)
    merged = gm.layers.get_submodule("0").attention.get_submodule("query-key-value-merged")
    parts = merged.weight.detach().split(16)
    t(gm, reverse=True)
    attention = gm.layers.get_submodule("0").attention
    for part, linear in zip(parts, (attention.query, attention.key, attention.value)):
        assert torch.equal(part, linear.weight)


def test_a_bias_that_was_none_must_stay_none():
    model, inputs = zoo.make("vit")
    gm = trace(model)
    t = MergeLinears()
    t(gm)
    with torch.no_grad():
        gm.block.attention.get_submodule("query-key-value-merged").bias.add_(1)
    before = Snapshot(gm)
    with pytest.raises(refx.Error, match="no original to go back to"):
        t(gm, reverse=True)
    Snapshot(gm).assert_equals(before)
    reverse(gm, discard_changes=True)
    assert gm.block.attention.key.bias is None


def test_a_folded_batch_norm_cannot_be_carried_back():
    model, inputs = zoo.make("resnet")
    gm = trace(model)
    gm.fc.requires_grad_(False)
    original = Snapshot(gm)
    t = FuseBatchNorm2dInConv2d()
    t(gm)
    step(gm, inputs)
    before = Snapshot(gm)
    with pytest.raises(refx.Error, match="discard_changes"):
        t(gm, reverse=True)
    Snapshot(gm).assert_equals(before)
    reverse(gm, discard_changes=True)
    Snapshot(gm).assert_equals(original)


def test_frozen_parts_are_not_trained():
    model, inputs = zoo.make("encoder")
    attention = model.layers[0].attention
    attention.key.requires_grad_(False)
    frozen = attention.key.weight.clone()
    gm = trace(model)
    t = MergeLinears()
    t(gm)
    step(gm, inputs)
    t(gm, reverse=True)
    key = gm.layers.get_submodule("0").attention.key
    assert torch.equal(key.weight, frozen) and not key.weight.requires_grad


def test_replaced_parameters_return():
    model, inputs = zoo.make("mlp")
    gm = trace(model)
    t = FuseBiasInLinear()
    t(gm)
    gm.load_state_dict({k: v + 1 for k, v in gm.state_dict().items()}, assign=True)
    t(gm, reverse=True)
    assert torch.equal(gm.first.weight, model.first.weight + 1)
    assert torch.equal(gm.first.bias, model.first.bias + 1)


def test_gradients_flow_through_slices():
    model, inputs = zoo.make("encoder")
    gm = MergeLinears()(trace(copy.deepcopy(model)))
    sum(t.sum() for t in flat(gm(*inputs))).backward()
    sum(t.sum() for t in flat(model(*inputs))).backward()
    merged = gm.layers.get_submodule("0").attention.get_submodule("query-key-value-merged")
    attention = model.layers[0].attention
    expected = torch.cat([m.weight.grad for m in (attention.query, attention.key, attention.value)])
    torch.testing.assert_close(merged.weight.grad, expected)


@pytest.mark.parametrize("copied", [lambda gm: gm, copy.deepcopy,
                                    lambda gm: pickle.loads(pickle.dumps(gm))],
                         ids=["itself", "deepcopy", "pickle"])
@pytest.mark.parametrize("write", [lambda p: p.data.mul_(2), lambda p: p.detach().numpy().__imul__(2)],
                         ids=["data", "numpy"])
def test_writes_that_no_version_counts(copied, write):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(64, 64), nn.Linear(64, 64)

        def forward(self, x):
            return self.q(x) + self.k(x) * 2

    net = Net()
    gm = MergeLinears()(trace(net))
    for parameter in gm.parameters():
        write(parameter)
    x = torch.randn(3, 64)
    expected = gm(x)
    gm = copied(gm)
    MergeLinears()(gm, reverse=True)
    torch.testing.assert_close(gm(x), expected)
    torch.testing.assert_close(gm.q.weight, 2 * net.q.weight)


def test_a_fold_that_was_written_through_data_is_refused():
    gm = trace(nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)).eval())
    FuseBatchNorm2dInConv2d()(gm)
    gm.get_submodule("0").weight.data.mul_(2)
    with pytest.raises(refx.Error, match="discard"):
        reverse(gm)
    reverse(gm, discard_changes=True)


def test_columns_that_are_copied_have_a_derivative():
    """narrow_copy has none before torch 2.13."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.q(x).view(-1) + torch.relu_(self.k(x)).view(-1)

    model, x = Net(), torch.randn(3, 4)
    for make in trace, lambda m: torch.export.export(m, (x,)).module(check_guards=False):
        plain, gm = make(copy.deepcopy(model)), make(copy.deepcopy(model))
        MergeLinears()(gm)
        copies = [n for n in gm.graph.nodes if str(n.target).find("copy") >= 0]
        assert len(copies) == 2 and not any("narrow_copy" in str(n.target) for n in copies)
        step(plain, (x,))
        step(gm, (x,))
        MergeLinears()(gm, reverse=True)
        for a, b in zip(gm.state_dict().values(), plain.state_dict().values()):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("trained", [False, True])
def test_requires_grad_of_a_merged_weight_returns(trained):
    model, inputs = zoo.make("encoder")
    gm = trace(model)
    t = MergeLinears()
    t(gm)
    if trained:
        step(gm, inputs)
    merged = gm.layers.get_submodule("0").attention.get_submodule("query-key-value-merged")
    merged.weight.requires_grad_(False)
    t(gm, reverse=True)
    attention = gm.layers.get_submodule("0").attention
    assert not any(linear.weight.requires_grad for linear in (attention.query, attention.key, attention.value))
    assert all(linear.bias.requires_grad for linear in (attention.query, attention.key, attention.value))
    other = gm.layers.get_submodule("1").attention
    assert other.query.weight.requires_grad


def test_a_representation_to_read():
    assert repr(compose(MergeLinears(), FuseBiasInLinear())) == "compose(MergeLinears(), FuseBiasInLinear())"
    assert repr(compose(MergeLinears(), inplace=False)) == "compose(MergeLinears(), inplace=False)"


def test_a_list_of_steps_is_reversed():
    gm = trace(zoo.make("encoder")[0])
    compose(MergeLinears(), FuseBiasInLinear())(gm)
    steps = refx.fx.log(gm)
    reverse(gm, [steps[-1], steps[-2].id])
    assert {step.id for step in refx.fx.log(gm)} == {step.id for step in steps[:-2]}
    reverse(gm, ["merge-linears", "fuse-bias-in-linear"])
    assert not refx.fx.log(gm)
