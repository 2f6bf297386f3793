# SPDX-License-Identifier: Apache-2.0
"""Every call lints and recompiles once, with the functions of torch.fx; lint_and_recompile=False does neither."""

import copy

import pytest
import torch
from torch import fx, nn
from torch.fx import GraphModule, symbolic_trace

import refx
from kit import Divided, by_pickle
from refx.fx import (
    ChangeTrueDivToMulByInverse,
    MergeLinears,
    ReversibleTransformation,
    compose,
    reverse,
)


class Tanh(ReversibleTransformation):
    def transform(self, graph_module):
        for node in graph_module.graph.nodes:
            if node.target is torch.relu:
                node.target = torch.tanh
        return graph_module


class WithReverse(Tanh):
    def reverse(self, graph_module):
        for node in graph_module.graph.nodes:
            if node.target is torch.tanh:
                node.target = torch.relu
        return graph_module


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
COMPOSED = (MergeLinears(), Tanh(), ChangeTrueDivToMulByInverse())
TRANSFORMATIONS = {
    "built-in": MergeLinears(),
    "own": Tanh(),
    "own reverse": WithReverse(),
    "compose": compose(*COMPOSED),
    "nested compose": compose(compose(*COMPOSED[:2]), compose(COMPOSED[2])),
    "compose with own reverse": compose(MergeLinears(), WithReverse()),
}


def traced(cls=None):
    torch.manual_seed(0)
    gm = symbolic_trace(Divided())
    return gm if cls is None else cls(gm, gm.graph)


@pytest.fixture
def calls(monkeypatch):
    """The calls of lint and recompile, in order."""
    made = []

    def count(owner, name):
        original = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda self: made.append(name) or original(self))

    count(fx.Graph, "lint")
    count(GraphModule, "recompile")
    return made


def since(calls):
    made = list(calls)
    calls.clear()
    return made


# ---- how often -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_each_once_in_a_call(name, calls):
    gm, t = traced(), TRANSFORMATIONS[name]
    code, expected = gm.code, gm(X)
    since(calls)
    t(gm)
    assert since(calls) == ["lint", "recompile"]
    assert gm.code != code
    new = gm.code
    gm.recompile()
    assert gm.code == new
    since(calls)
    t(gm, reverse=True)
    assert since(calls) == ["lint", "recompile"]
    assert gm.code == code and torch.equal(gm(X), expected)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_neither(name, calls):
    gm, t = traced(), TRANSFORMATIONS[name]
    code, expected = gm.code, gm(X)
    since(calls)
    t(gm, lint_and_recompile=False)
    assert since(calls) == [] and gm.code == code
    gm.recompile()
    assert gm.code != code
    new = gm.code
    since(calls)
    t(gm, lint_and_recompile=False, reverse=True)
    assert since(calls) == [] and gm.code == new
    gm.recompile()
    assert gm.code == code and torch.equal(gm(X), expected)


def test_a_composition_that_copies(calls):
    gm = traced()
    code = gm.code
    copied = copy.deepcopy(gm)  # which recompiles
    since(calls)
    copy.deepcopy(copied)
    own = since(calls)
    other = compose(*COMPOSED, inplace=False)(gm)
    assert since(calls) == [*own, "lint", "recompile"]
    assert gm.code == code and other.code != code


def test_reverse_of_steps(calls):
    gm = compose(*COMPOSED)(traced())
    since(calls)
    reverse(gm, "merge-linears")
    assert since(calls) == ["lint", "recompile"]
    reverse(gm, lint_and_recompile=False)
    assert since(calls) == []
    gm.recompile()
    assert gm.code == traced().code


def test_without_a_site(calls):
    gm = symbolic_trace(nn.ReLU())
    since(calls)
    MergeLinears()(gm)
    assert since(calls) == ["lint", "recompile"]
    assert not any("refx" in name for name in (*vars(gm), *gm.meta))


# ---- the code after a call without recompile ----------------------------------------------------------


def test_the_copy_of_what_was_not_recompiled_has_the_new_code():
    gm = MergeLinears()(traced(), lint_and_recompile=False)
    other = copy.deepcopy(gm)
    assert other.code == MergeLinears()(traced()).code
    MergeLinears()(other, reverse=True)
    assert other.code == traced().code and torch.equal(other(X), traced()(X))


def test_what_was_recompiled_by_hand_can_be_saved():
    gm = MergeLinears()(traced(), lint_and_recompile=False)
    gm.recompile()
    loaded = by_pickle(gm)
    assert torch.equal(loaded(X), gm(X))
    MergeLinears()(loaded, reverse=True)
    assert loaded.code == traced().code and torch.equal(loaded(X), traced()(X))


# ---- whose functions -------------------------------------------------------------------------------


class OwnRecompile(GraphModule):
    count = 0

    def recompile(self):
        self.count += 1
        return super().recompile()


class OwnGraph(fx.Graph):
    def lint(self):
        raise RuntimeError("not this one")


def test_a_recompile_of_a_derived_class_is_called():
    gm = traced(OwnRecompile)
    count = gm.count
    MergeLinears()(gm)
    assert gm.count == count + 1


def test_a_recompile_of_an_instance_is_called():
    gm, seen = traced(), []
    gm.recompile = lambda: seen.append(GraphModule.recompile(gm))
    MergeLinears()(gm)
    assert len(seen) == 1


def test_a_lint_of_a_derived_class_is_called():
    graph = OwnGraph()
    graph.output(graph.placeholder("x"))
    gm = GraphModule(nn.Module(), graph)
    MergeLinears()(gm, lint_and_recompile=False)
    with pytest.raises(RuntimeError, match="not this one"):
        MergeLinears()(gm)


def test_the_class_of_the_graph_module_stays_as_it_is():
    gm = traced()
    names = vars(type(gm)).keys() | vars(gm).keys()
    MergeLinears()(gm)
    MergeLinears()(gm, reverse=True)
    assert vars(type(gm)).keys() | vars(gm).keys() == names


# ---- errors ----------------------------------------------------------------------------------------


def not_in_the_side_table(gm):
    gm.graph._find_nodes_lookup_table.remove(next(n for n in gm.graph.nodes if n.target is torch.relu))


def name_twice(gm):
    first, *_, last = gm.graph.nodes
    object.__setattr__(last, "name", first.name)


def method_that_is_no_name(gm):
    object.__setattr__(next(iter(gm.graph.nodes)), "target", 7)


@pytest.mark.parametrize("damage", [not_in_the_side_table, name_twice, method_that_is_no_name])
def test_lint_says_what_is_wrong(damage):
    class Damages(ReversibleTransformation):
        def transform(self, graph_module):
            damage(graph_module)
            return graph_module

        def _run(self, graph_module, checked):  # refx does not read the graph
            return self.transform(graph_module)

    gm = traced()
    damage(gm)
    with pytest.raises((RuntimeError, ValueError)) as expected:
        gm.graph.lint()
    for t in Damages(), compose(Damages()):
        gm = traced()
        with pytest.raises(expected.type) as raised:
            t(gm)
        assert str(raised.value) == str(expected.value)
        assert not isinstance(raised.value, refx.Error)
        t(traced(), lint_and_recompile=False)


def test_a_recompile_that_fails(monkeypatch):
    gm = traced()
    with monkeypatch.context() as patched:
        patched.setattr(fx.Graph, "python_code", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            MergeLinears()(gm)
    MergeLinears()(gm, reverse=True)
    assert gm.code == traced().code and torch.equal(gm(X), traced()(X))
