# SPDX-License-Identifier: Apache-2.0
"""Several threads on one GraphModule: its history has every step, in any order of the threads."""

import sys
import threading
import time

import pytest
import torch

from kit import Divided, Snapshot, trace
from refx.fx import (
    ChangeTrueDivToMulByInverse,
    MergeLinears,
    ReversibleTransformation,
    log,
    reverse,
)
from refx.fx._history import History


class Tanh(ReversibleTransformation):
    def transform(self, graph_module):
        for node in graph_module.graph.find_nodes(op="call_function", target=torch.relu):
            with graph_module.graph.inserting_before(node):
                other = graph_module.graph.call_function(torch.tanh, node.args)
            node.replace_all_uses_with(other)
            graph_module.graph.erase_node(node)
        return graph_module


@pytest.fixture(autouse=True)
def _switch_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(*functions):
    barrier, failures = threading.Barrier(len(functions)), []

    def run(function):
        barrier.wait()
        try:
            function()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@pytest.mark.parametrize("_", range(30))
def test_no_step_is_lost(_):
    gm = trace(Divided())
    before = Snapshot(gm)
    at_once(*(lambda t=t: t(gm) for t in (MergeLinears(), ChangeTrueDivToMulByInverse(), Tanh())))
    names = sorted(step.transformation for step in log(gm))
    assert names == ["Tanh", "change-true-div-to-mul-by-inverse", "merge-linears"]
    reverse(gm)
    Snapshot(gm).assert_equals(before)


@pytest.mark.parametrize("_", range(30))
def test_one_is_done_while_another_begins(_):
    gm = trace(Divided())
    before = Snapshot(gm)
    merge, divide = MergeLinears(), ChangeTrueDivToMulByInverse()
    merge(gm)
    at_once(lambda: merge(gm, reverse=True), lambda: divide(gm))
    assert [step.transformation for step in log(gm)] == ["change-true-div-to-mul-by-inverse"]
    reverse(gm)
    Snapshot(gm).assert_equals(before)


def test_a_history_that_was_dropped_while_one_waited_for_it():
    gm = trace(Divided())
    history = History.of(gm)
    thread = threading.Thread(target=lambda: MergeLinears()(gm))
    with history.lock:
        thread.start()
        time.sleep(0.1)  # until it waits; if it does not yet, nothing is tested
        History.drop(gm)
    thread.join()
    assert [step.transformation for step in log(gm)] == ["merge-linears"]
