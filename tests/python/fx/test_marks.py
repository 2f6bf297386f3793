# SPDX-License-Identifier: Apache-2.0
"""node.transformations: the signatures of the transformations that marked a node."""

import copy

import pytest
import torch
from torch import nn

import refx.fx
import zoo
from kit import Snapshot, by_pickle, by_torch_save, trace
from refx.fx import (
    ChangeTrueDivToMulByInverse,
    FuseBiasInLinear,
    MergeLinears,
    ReversibleTransformation,
)


class GeluToTanh(ReversibleTransformation):
    def transform(self, graph_module):
        for node in graph_module.graph.nodes:
            if node.target is nn.functional.gelu:
                node.target = torch.tanh
                self.mark_as_transformed(node)
        return graph_module


class Mine(MergeLinears):
    pass


def with_a_copied_graph(gm):
    gm.graph = copy.deepcopy(gm.graph)
    return gm


COPIES = [lambda gm: gm, copy.deepcopy, by_pickle, by_torch_save, with_a_copied_graph,
          lambda gm: by_pickle(copy.deepcopy(gm)), lambda gm: copy.deepcopy(by_pickle(gm))]


def marked(gm):
    return [getattr(node, "transformations", None) for node in gm.graph.nodes]


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("cls", [MergeLinears, FuseBiasInLinear, ChangeTrueDivToMulByInverse, GeluToTanh, Mine])
def test_every_copy_has_them(cls, copied):
    gm, t = trace(zoo.make("encoder")[0]), cls()
    before = Snapshot(gm)
    t(gm)
    expected = marked(gm)
    assert {t.signature} in expected and None in expected
    other = copied(gm)
    if copied is copy.deepcopy:  # pickle and a copy of a graph alone give refx no occasion to mark the nodes
        assert marked(other) == expected
    assert t.get_transformed_nodes(other) == [n for n in other.graph.nodes if t.transformed(n)]
    assert marked(other) == expected
    assert len(t.get_transformed_nodes(other)) == sum(t.signature in (m or ()) for m in expected)
    t(other, reverse=True)
    assert not any(marked(other)) and not t.get_transformed_nodes(other)
    if other is gm and copied is COPIES[0]:
        Snapshot(gm).assert_equals(before)
        assert not any(vars(node) for node in gm.graph.nodes)


@pytest.mark.parametrize("call", [
    refx.fx.log, MergeLinears(), lambda gm: refx.fx.explain(MergeLinears(), gm),
    lambda gm: MergeLinears().transformed(next(iter(gm.graph.nodes)))])
def test_every_function_of_refx_restores_the_marks_of_a_loaded_copy(call):
    gm = MergeLinears()(trace(zoo.make("encoder")[0]))
    loaded = by_pickle(gm)
    call(loaded)
    assert marked(loaded) == marked(gm)


@pytest.mark.parametrize("copied", COPIES)
def test_marks_that_a_copy_gets_stay(copied):
    gm = MergeLinears()(trace(zoo.make("encoder")[0]))
    other = copied(gm)
    node = next(iter(other.graph.nodes))
    node.transformations = {"first"}  # before refx looks at the copy
    GeluToTanh().mark_as_transformed(node)
    refx.fx.log(other)
    assert node.transformations == {"first", GeluToTanh().signature}
    assert len(MergeLinears().get_transformed_nodes(other)) == len(MergeLinears().get_transformed_nodes(gm))
    assert marked(copy.deepcopy(copy.deepcopy(other))) == marked(other)


def test_the_class_of_nodes_stays_as_it_is():
    MergeLinears()(trace(zoo.make("encoder")[0]))
    assert not hasattr(torch.fx.Node, "transformations")


def test_it_is_what_marking_writes_and_asking_reads():
    gm = trace(zoo.make("encoder")[0])
    node, t = next(iter(gm.graph.nodes)), GeluToTanh()
    assert not hasattr(node, "transformations") and not t.transformed(node)
    t.mark_as_transformed(node)
    assert node.transformations == {t.signature} and type(node.transformations) is set
    t.mark_as_transformed(node)
    assert node.transformations == {t.signature} and t.get_transformed_nodes(gm) == [node]
    t.mark_as_restored(node)
    assert node.transformations == set() and not t.transformed(node)
    with pytest.raises(ValueError, match="was not transformed"):
        t.mark_as_restored(node)
    node.transformations.add(t.signature)
    assert t.transformed(node)


def test_a_derived_class_marks_as_itself():
    gm, t = trace(zoo.make("encoder")[0]), Mine()
    t(gm)
    assert len(t.get_transformed_nodes(gm)) == 6 and not MergeLinears().get_transformed_nodes(gm)
    node = next(iter(gm.graph.nodes))
    t.mark_as_transformed(node)
    assert t.transformed(node)


def test_a_part_of_another_marks_as_itself():
    class Both(ReversibleTransformation):
        def transform(self, graph_module):
            return GeluToTanh().transform(MergeLinears()(graph_module))

    gm = Both()(trace(zoo.make("encoder")[0]))
    assert MergeLinears().get_transformed_nodes(gm) and GeluToTanh().get_transformed_nodes(gm)
    Both()(gm, reverse=True)
    assert not any(marked(gm))


def test_copies_do_not_share_the_set():
    gm = MergeLinears()(trace(zoo.make("encoder")[0]))
    other = copy.deepcopy(gm)
    for node in MergeLinears().get_transformed_nodes(other):
        GeluToTanh().mark_as_transformed(node)
    assert not GeluToTanh().get_transformed_nodes(gm)
    assert GeluToTanh().get_transformed_nodes(copy.deepcopy(other))  # a mark made by hand


def test_what_others_put_there_stays():
    gm = trace(zoo.make("encoder")[0])
    nodes = [node for node in gm.graph.nodes if "query" in node.name]
    for node in nodes:
        node.transformations = {7}
    MergeLinears()(gm)
    assert all(node.transformations == {7, "merge-linears"} for node in nodes)
    assert [step.transformation for step in refx.fx.log(gm)] == ["merge-linears"] * 2
    MergeLinears()(gm, reverse=True)
    assert all(node.transformations == {7} for node in nodes)


def test_metadata_carries_no_marks():
    gm = MergeLinears()(trace(zoo.make("encoder")[0]))
    node = MergeLinears().get_transformed_nodes(gm)[0]
    with gm.graph.inserting_after(node):
        other = gm.graph.call_function(torch.neg, (node,))
    other.meta = node.meta
    assert not MergeLinears().transformed(other)
