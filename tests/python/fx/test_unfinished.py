# SPDX-License-Identifier: Apache-2.0
"""lint_and_recompile=False: a pass may leave the graph unfinished, and a later one finish it."""

import copy

import pytest
import torch
from torch import nn

import refx
import zoo
from kit import Snapshot, flat, trace
from refx.fx import MergeLinears, ReversibleTransformation, compose, log

INPUTS = zoo.make("encoder")[1]


def gelus(gm):
    return [node for node in gm.graph.nodes if node.target is nn.functional.gelu]


class TooEarly(ReversibleTransformation):
    """Leaves nodes that are used before they are computed."""

    def transform(self, gm):
        for node in gelus(gm):
            node.args[0].prepend(node)
        return gm


class InOrder(ReversibleTransformation):
    """Puts them where they belong."""

    def transform(self, gm):
        for node in gelus(gm):
            node.args[0].append(node)
            node.target = torch.tanh
        return gm


class CallsNothing(ReversibleTransformation):
    """Calls a module that is not there yet."""

    def transform(self, gm):
        for node in gelus(gm):
            node.op, node.target = "call_module", "act"
        return gm


class AddsIt(ReversibleTransformation):
    def transform(self, gm):
        gm.add_submodule("act", nn.ReLU())
        return gm


UNFINISHED = "broken|does not have|still has users"
PAIRS = [(TooEarly, InOrder), (CallsNothing, AddsIt)]


@pytest.fixture
def gm():
    return trace(zoo.make("encoder")[0])


@pytest.mark.parametrize("first, second", PAIRS)
def test_a_later_one_finishes_it(gm, first, second):
    before = Snapshot(gm)
    first()(gm, lint_and_recompile=False)
    second()(gm)
    gm.graph.lint()
    gm(*INPUTS)
    assert [step.transformation for step in log(gm)] == [first.__name__]  # both: one step
    merged = MergeLinears()(gm)
    assert len(log(merged)) == 3
    MergeLinears()(gm, reverse=True)
    second()(gm, reverse=True)  # it has none
    first()(gm, reverse=True)
    Snapshot(gm).assert_equals(before)


@pytest.mark.parametrize("first, second", PAIRS)
def test_in_a_composition(gm, first, second):
    before, code = Snapshot(gm), gm.code
    both = compose(MergeLinears(), first(), second())
    both(gm)
    gm(*INPUTS)
    other = copy.deepcopy(gm)
    both(gm, reverse=True)
    Snapshot(gm).assert_equals(before)
    both(other, reverse=True)
    assert other.code == code


@pytest.mark.parametrize("first, second", PAIRS)
def test_what_nobody_finishes_is_an_error(gm, first, second):
    before = Snapshot(gm)
    with pytest.raises(refx.Error, match=UNFINISHED):
        first()(gm)
    Snapshot(gm).assert_equals(before)
    with pytest.raises(refx.Error, match=UNFINISHED):
        compose(MergeLinears(), first())(gm)
    assert not any("act" == node.target for node in gm.graph.nodes)
    with pytest.raises(refx.Error, match=UNFINISHED):
        compose(first(), MergeLinears())(gm)
    Snapshot(gm).assert_equals(before)


@pytest.mark.parametrize("first, second", PAIRS)
def test_one_that_fails_in_between_takes_all_of_it_back(gm, first, second):
    class Fails(ReversibleTransformation):
        def transform(self, gm):
            raise RuntimeError("half-way")

    before = Snapshot(gm)
    first()(gm, lint_and_recompile=False)
    with pytest.raises(RuntimeError, match="half-way"):
        Fails()(gm)
    Snapshot(gm).assert_equals(before)
    with pytest.raises(RuntimeError, match="half-way"):
        compose(MergeLinears(), first(), Fails(), second())(gm)
    Snapshot(gm).assert_equals(before)


def test_finished_by_hand(gm):
    expected = flat(gm(*INPUTS))
    TooEarly()(gm, lint_and_recompile=False)
    with pytest.raises(refx.Error, match=UNFINISHED):
        log(gm)
    for node in gelus(gm):
        node.args[0].append(node)
    gm.recompile()
    assert all(torch.equal(a, b) for a, b in zip(flat(gm(*INPUTS)), expected))
    MergeLinears()(gm)
    gm.graph.lint()
