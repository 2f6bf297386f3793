# SPDX-License-Identifier: Apache-2.0
"""Transformations written by users, in plain torch.fx style; compose; marks."""

import copy
import pickle
import pydoc

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import refx
import zoo
from kit import LIBRARY, Snapshot, flat, trace
from refx.fx import (
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    ReversibleTransformation,
    Transformation,
    compose,
    explain,
    forget,
    log,
    reverse,
)


class GeluToRelu(ReversibleTransformation):
    """Only transform: refx knows the way back."""

    def transform(self, graph_module):
        for node in graph_module.graph.nodes:
            if node.target is F.gelu:
                node.target = F.relu
                self.mark_as_transformed(node)
        return graph_module


class DropNorms(Transformation):
    """Plain: erases nodes and modules."""

    def transform(self, graph_module):
        for node in list(graph_module.graph.nodes):
            if "norm1" in str(node.target):
                node.replace_all_uses_with(node.args[0])
                graph_module.graph.erase_node(node)
        graph_module.delete_all_unused_submodules()
        return graph_module


class WiderPooler(ReversibleTransformation):
    def __init__(self, width=20):
        self.width = width

    def transform(self, graph_module):
        graph_module.pooler = nn.Linear(16, self.width)
        output = next(n for n in graph_module.graph.nodes if n.op == "output")
        with graph_module.graph.inserting_before(output):
            extra = graph_module.graph.call_method("sum", (output.args[0]["pooled"],))
        output.args = ({**output.args[0], "sum": extra},)
        return graph_module


class Both(ReversibleTransformation):
    """Upstream's way: reverse is written, and obeyed."""

    calls = 0

    def transform(self, graph_module):
        for node in graph_module.graph.nodes:
            if node.target is F.gelu:
                node.target = F.silu
                self.mark_as_transformed(node)
        return graph_module

    def reverse(self, graph_module):
        Both.calls += 1
        for node in self.get_transformed_nodes(graph_module):
            node.target = F.gelu
            self.mark_as_restored(node)
        return graph_module


class Fails(ReversibleTransformation):
    def transform(self, graph_module):
        DropNorms().transform(graph_module)
        raise RuntimeError("half-way")


@pytest.fixture
def gm():
    return trace(zoo.make("encoder")[0])


INPUTS = zoo.make("encoder")[1]


@pytest.mark.parametrize("cls", [GeluToRelu, WiderPooler])
@pytest.mark.parametrize("copied", [lambda gm: gm, copy.deepcopy])
def test_reversed_without_a_reverse(gm, cls, copied):
    before, code, expected = Snapshot(gm), gm.code, flat(gm(*INPUTS))
    t = cls()
    t(gm)
    assert gm.code != code
    assert [s.transformation for s in log(gm)] == [cls.__name__]
    other = copied(gm)
    t(other, reverse=True)
    assert other.code == code
    assert all(torch.equal(a, b) for a, b in zip(flat(other(*INPUTS)), expected))
    if other is gm:
        Snapshot(gm).assert_equals(before)


def test_a_plain_one_is_in_the_history(gm):
    before = Snapshot(gm)
    t = DropNorms()
    t(gm)
    assert not hasattr(gm.layers.get_submodule("0"), "norm1")
    with pytest.raises(TypeError):
        t(gm, reverse=True)
    reverse(gm, "DropNorms")
    Snapshot(gm).assert_equals(before)


def test_a_written_reverse_is_obeyed(gm):
    code = gm.code
    t = Both()
    t(gm)
    assert len(t.get_transformed_nodes(gm)) == 2
    t(gm, reverse=True)
    assert Both.calls == 1 and gm.code == code and t.get_transformed_nodes(gm) == []
    with pytest.raises(ValueError):
        t.mark_as_restored(next(iter(gm.graph.nodes)))


def test_one_that_fails_changes_nothing(gm):
    before = Snapshot(gm)
    with pytest.raises(RuntimeError, match="half-way"):
        Fails()(gm)
    Snapshot(gm).assert_equals(before)


def test_between_built_in_ones(gm):
    before = Snapshot(gm)
    merge, own, fuse = MergeLinears(), GeluToRelu(), FuseBiasInLinear()
    for t in (merge, own, fuse):
        t(gm)
    for t in (merge, own, fuse):
        t(gm, reverse=True)
    Snapshot(gm).assert_equals(before)


def test_one_that_others_build_on_is_refused(gm):
    widen, fuse = WiderPooler(), FuseBiasInLinear()
    widen(gm)
    fuse(gm)
    widen(gm, reverse=True)  # the library's own are applied again
    assert "fuse-bias-in-linear  pooler" in " ".join(str(s) for s in log(gm))

    class Negate(Transformation):
        def transform(self, graph_module):
            node = next(n for n in graph_module.graph.nodes if n.name == "pooler")
            node.kwargs, node.args = {"input": node.args[0]}, ()
            return graph_module

    Negate()(gm)
    with pytest.raises(refx.Error, match="Negate"):
        fuse(gm, reverse=True)


def test_signatures():
    assert MergeLinears().signature == "merge-linears"
    assert WiderPooler().signature == WiderPooler(20).signature != WiderPooler(21).signature
    assert isinstance(hash(compose(MergeLinears()).signature), int)

    class Mine(MergeLinears):
        pass

    assert Mine().signature != MergeLinears().signature
    gm = trace(zoo.make("encoder")[0])
    before = Snapshot(gm)
    Mine()(gm)
    MergeLinears()(gm, reverse=True)  # not its steps
    assert len(log(gm)) == 2
    Mine()(gm, reverse=True)
    Snapshot(gm).assert_equals(before)


def test_compose(gm):
    before = Snapshot(gm)
    composed = compose(MergeLinears(), compose(GeluToRelu(), FuseBiasInLinear()))
    assert isinstance(composed, ReversibleTransformation) and not composed.preserves_computation
    assert compose(MergeLinears(), FuseBiasInLinear()).preserves_computation
    assert not isinstance(compose(MergeLinears(), DropNorms()), ReversibleTransformation)
    with pytest.raises(refx.Error):
        compose()
    composed(gm)
    composed(gm, reverse=True)
    Snapshot(gm).assert_equals(before)


def test_compose_on_a_copy(gm):
    before = Snapshot(gm)
    composed = compose(MergeLinears(), FuseBiasInLinear(), inplace=False)
    other = composed(gm)
    assert other is not gm and log(other) and not log(gm)
    Snapshot(gm).assert_equals(before)
    merged = Snapshot(other)
    back = composed(other, reverse=True)
    assert back is not other and back.code == gm.code
    Snapshot(other).assert_equals(merged)


def test_explain(gm):
    found = explain(compose(MergeLinears(), FuseBatchNorm2dInConv2d()), gm)
    assert [site.name for site in found.sites] == [
        f"layers.{i}.attention.{{query,key,value}}" for i in range(2)]
    assert [n.name for n in found.sites[0].nodes][0] == "layers_0_attention_query"
    with pytest.raises(refx.Error):
        explain(GeluToRelu(), gm)
    assert "2 sites" in str(found)


def test_forget(gm):
    MergeLinears()(gm)
    assert log(gm)[0].bytes > 0
    forget(gm)
    assert not log(gm)
    with pytest.raises(refx.Error, match="history is gone.*forgotten"):
        MergeLinears()(gm, reverse=True)


def test_every_transformation_of_the_library_is_here():
    classes = {cls._name for cls in vars(refx.fx).values() if isinstance(getattr(cls, "_name", None), str)}
    assert classes == {name for name, _ in LIBRARY}


@pytest.mark.parametrize("name, summary", LIBRARY)
def test_a_transformation_of_the_library_is_a_class_like_any_other(name, summary):
    found = list({cls for cls in vars(refx.fx).values() if getattr(cls, "_name", None) == name})  # once with old names
    assert len(found) == 1 and found[0].__name__.lower() == name.replace("-", "")
    assert found[0].__name__ in refx.fx.__all__
    assert summary in pydoc.render_doc(found[0])
    same = pickle.loads(pickle.dumps(found[0]()))
    assert type(same) is found[0] and same.signature == name


def test_errors_are_value_errors():
    assert issubclass(refx.Error, ValueError)
    gm = MergeLinears()(trace(zoo.make("encoder")[0]))
    with pytest.raises(refx.Error, match="did you mean 'merge-linears'"):
        reverse(gm, "merge-linear")
    with pytest.raises(refx.Error, match="reapply"):
        reverse(gm, dependents="nonsense")
