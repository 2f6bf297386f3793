# SPDX-License-Identifier: Apache-2.0
"""Changes by others while the GraphModule is transformed: followed, or a reason to refuse."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import refx
import zoo
from kit import Snapshot, trace
from refx.fx import (
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    NothingReversed,
    compose,
)


class Three(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(4, 4), nn.Linear(4, 4, bias=False), nn.Linear(4, 6)
        self.out = nn.Linear(4, 4)

    def forward(self, x):
        return self.out(torch.relu(self.q(x)) / 4 + self.k(x)), self.v(x)


@pytest.fixture
def gm():
    torch.manual_seed(0)
    return trace(Three().eval())


def relu_to_gelu(gm):
    for node in gm.graph.nodes:
        if node.target is torch.relu:
            node.target = F.gelu
    gm.recompile()


def add_node_at_end(gm):
    output = next(n for n in gm.graph.nodes if n.op == "output")
    with gm.graph.inserting_before(output):
        new = gm.graph.call_function(torch.neg, (output.args[0][0],))
    output.args = ((new, output.args[0][1]),)
    gm.recompile()


@pytest.mark.parametrize("change", [relu_to_gelu, add_node_at_end])
@pytest.mark.parametrize("copied", [lambda gm: gm, copy.deepcopy])
def test_a_change_elsewhere_stays(gm, change, copied):
    changed = copied(gm)
    expected = copy.deepcopy(gm)
    change(expected)
    t = MergeLinears()
    gm = copied(t(changed))
    change(gm)
    t(gm, reverse=True)
    assert gm.code == expected.code
    x = torch.randn(2, 4)
    assert all(torch.equal(a, b) for a, b in zip(gm(x), expected(x)))


def merged_node(gm):
    return next(n for n in gm.graph.nodes if "merged" in str(n.target))


def use_merged(gm):
    node = merged_node(gm)
    output = next(n for n in gm.graph.nodes if n.op == "output")
    output.args = ((output.args[0], node),)
    gm.recompile()


def erase_a_slice(gm):
    node = next(n for n in gm.graph.nodes if n.name == "v")
    node.replace_all_uses_with(merged_node(gm))
    gm.graph.erase_node(node)
    gm.recompile()


def rewrite_a_slice(gm):
    node = next(n for n in gm.graph.nodes if n.name == "q")
    node.args = (node.args[0], (Ellipsis, slice(1, 5, None)))
    gm.recompile()


def another_module(gm):
    gm.add_module(merged_node(gm).target, nn.Linear(4, 99))


def take_the_name(gm):
    gm.add_module("q", nn.Linear(4, 4))
    node = next(n for n in gm.graph.nodes if n.op == "output")
    with gm.graph.inserting_before(node):
        new = gm.graph.call_module("q", (next(iter(gm.graph.nodes)),))
    node.args = ((node.args[0], new),)
    gm.recompile()


@pytest.mark.parametrize("change", [use_merged, erase_a_slice, rewrite_a_slice, another_module,
                                    take_the_name])
def test_a_change_in_the_way_is_an_error(gm, change):
    t = MergeLinears()
    t(gm)
    change(gm)
    code, state, names = gm.code, Snapshot(gm).tensors, [n.name for n in gm.graph.nodes]
    with pytest.raises(refx.Error, match="changed since"):
        t(gm, reverse=True)
    assert gm.code == code and [n.name for n in gm.graph.nodes] == names
    assert [a[:2] for a in Snapshot(gm).tensors] == [a[:2] for a in state]


def test_after_the_change_is_taken_back(gm):
    t = MergeLinears()
    t(gm)
    merged = Snapshot(gm)
    node = merged_node(gm)
    output = next(n for n in gm.graph.nodes if n.op == "output")
    old = output.args
    output.args = ((output.args[0], node),)
    with pytest.raises(refx.Error):
        t(gm, reverse=True)
    output.args = old
    with pytest.raises(refx.Error):  # two changes that cancel out are two changes
        t(gm, reverse=True)
    Snapshot(gm).assert_equals(merged)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_converted_meanwhile(dtype):
    for name, t in (("encoder", MergeLinears()), ("resnet", FuseBatchNorm2dInConv2d()),
                    ("vit", ChangeTrueDivToMulByInverse()), ("mlp", FuseBiasInLinear())):
        model, inputs = zoo.make(name)
        expected = Snapshot(trace(copy.deepcopy(model).to(dtype)), objects=False)
        gm = t(trace(model))
        gm.to(dtype)
        t(gm, reverse=True)
        found = Snapshot(gm, objects=False)
        assert found.keys == expected.keys
        for a, b in zip(found.tensors, expected.tensors):
            assert a[3] == b[3] and torch.equal(a[10], b[10]), (name, a[0])


def test_mode_changed_meanwhile():
    model, _ = zoo.make("resnet")
    gm = trace(model)
    t = FuseBatchNorm2dInConv2d()
    t(gm)
    gm.train()
    t(gm, reverse=True)
    assert all(m.training for m in gm.modules())
    assert not model.stem[1].training  # the source's own, which was not in gm then


def test_shapes_learnt_meanwhile(gm):
    from torch.fx.passes.shape_prop import ShapeProp

    before = [n.name for n in gm.graph.nodes]
    t = MergeLinears()
    t(gm)
    ShapeProp(gm).propagate(torch.randn(2, 4))
    t(gm, reverse=True)
    assert [n.name for n in gm.graph.nodes] == before


def test_dead_code_elimination_between(gm):
    t = compose(MergeLinears(), FuseBiasInLinear())
    code = gm.code
    t(gm)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    t(gm, reverse=True)
    assert gm.code == code


class Functional(nn.Module):
    """Linears as functions, whose weights are the model's own."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(3, 4))
        self.bias = nn.Parameter(torch.randn(4))
        self.register_buffer("scale", torch.tensor([2.0, 4.0, 8.0]))

    def forward(self, x):
        return F.linear(x, self.a, self.bias), F.linear(x, self.b) / self.scale


def traced_again(gm):
    return trace(gm)


def nodes_made_anew(gm):
    graph, new = torch.fx.Graph(), {}
    for node in gm.graph.nodes:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), new.get)
        new[node] = graph.create_node(node.op, node.target, args, kwargs)
    return torch.fx.GraphModule(gm, graph)


def by_transformer(gm):
    return torch.fx.Transformer(gm).transform()


REMADE = [traced_again, nodes_made_anew, by_transformer,
          lambda gm: traced_again(copy.deepcopy(gm)), lambda gm: nodes_made_anew(trace(gm))]


@pytest.mark.parametrize("remake", REMADE)
@pytest.mark.parametrize("name, t", [("encoder", MergeLinears()), ("mlp", FuseBiasInLinear()),
                                     ("resnet", FuseBatchNorm2dInConv2d())])
def test_a_graph_made_anew_has_no_history_and_says_so(remake, name, t):
    gm = remake(t(trace(zoo.make(name)[0])))
    before = Snapshot(gm)
    with pytest.raises(refx.Error, match="was (made|transformed) by .* history is gone"):
        t(gm, reverse=True)
    Snapshot(gm).assert_equals(before)
    with pytest.raises(refx.Error, match="history is gone"):
        compose(t, ChangeTrueDivToMulByInverse())(gm, reverse=True)


@pytest.mark.parametrize("remake", REMADE[:3])
@pytest.mark.parametrize("t", [MergeLinears(), FuseBiasInLinear(), ChangeTrueDivToMulByInverse()])
def test_so_does_one_whose_weights_are_attributes(remake, t):
    gm = remake(t(trace(Functional().eval())))
    with pytest.raises(refx.Error, match="history is gone"):
        t(gm, reverse=True)


def test_a_later_history_does_not_hide_that(gm):
    again = FuseBiasInLinear()(trace(MergeLinears()(gm)))
    with pytest.raises(refx.Error, match="merged' was made by merge-linears, .* gone"):
        MergeLinears()(again, reverse=True)
    FuseBiasInLinear()(again, reverse=True)  # its own steps are known


def test_reversing_a_transformation_that_was_not_applied_changes_nothing(gm):
    MergeLinears()(gm)
    before = Snapshot(gm)
    FuseBiasInLinear()(gm, reverse=True)
    Snapshot(gm).assert_equals(before)
    plain = trace(Three().eval())
    before = Snapshot(plain)
    MergeLinears()(plain, reverse=True)
    Snapshot(plain).assert_equals(before)
    MergeLinears()(gm, reverse=True)
    before = Snapshot(again := trace(gm))
    MergeLinears()(again, reverse=True)
    Snapshot(again).assert_equals(before)


def test_a_graph_that_took_the_place_keeps_the_history(gm):
    before, x = Snapshot(gm, objects=False), torch.randn(2, 4)
    expected = gm(x)
    t = MergeLinears()
    t(gm)
    gm.graph = nodes_made_anew(gm).graph  # its nodes have names of their own
    t(gm, reverse=True)
    after = Snapshot(gm, objects=False)
    assert after.keys == before.keys and after.modules == before.modules
    assert [node[2:4] for node in after.nodes] == [node[2:4] for node in before.nodes]
    assert all(torch.equal(a, b) for a, b in zip(gm(x), expected))


# ---- nothing to reverse ------------------------------------------------------------------------------


@pytest.mark.parametrize("transformation", [ChangeTrueDivToMulByInverse(), MergeLinears(),
                                            compose(MergeLinears(), FuseBiasInLinear())])
def test_reversing_without_a_history_warns(transformation):
    model, _ = zoo.make("encoder")
    gm = trace(model)
    before = gm.code
    with pytest.warns(NothingReversed, match="has no history"):
        assert transformation(gm, reverse=True) is gm
    assert gm.code == before


def test_a_division_in_a_graph_made_anew_is_not_silent():
    gm = torch.fx.symbolic_trace(lambda x: x / 7)
    gm = ChangeTrueDivToMulByInverse()(gm)
    anew = torch.fx.symbolic_trace(gm)
    with pytest.warns(NothingReversed):
        ChangeTrueDivToMulByInverse()(anew, reverse=True)


def test_a_composition_that_has_a_history_does_not_warn(recwarn):
    model, _ = zoo.make("encoder")
    gm = trace(model)
    both = compose(FuseBatchNorm2dInConv2d(), MergeLinears())
    both(both(gm), reverse=True)
    assert not [w for w in recwarn if issubclass(w.category, NothingReversed)]
