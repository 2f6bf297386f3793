# SPDX-License-Identifier: Apache-2.0
"""The history of a GraphModule as bytes: damaged or crafted, it is an error, and never another model."""

import copy
import pickle
import struct
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import fx, nn

import refx
from refx.fx import FuseBiasInLinear, MergeLinears, log
from refx.fx._history import History

HEADER = len(b"refx.fx 2\n") + 32


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.q(x) + self.k(x)


def rewritten():
    gm = fx.symbolic_trace(Two())
    MergeLinears()(gm)
    FuseBiasInLinear()(gm)
    return gm


def saved():
    """The bytes and tensors of a history with two steps."""
    state = History.find(rewritten())._state(with_meta=False)
    return state["data"], state["tensors"]


def unsealed(data):
    """The same as a refx before the checksum wrote it."""
    return b"refx.fx 1\n" + data[HEADER:]


def in_child(code):
    """Runs in another process, which may crash."""
    script = f"import sys; sys.path[:0] = {sys.path!r}\nfrom test_saved_history import *\n" + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:] or done.returncode
    return done.stdout


def flips(data, step=1):
    for bit in range(0, 8 * len(data), step):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def test_every_flipped_bit_is_noticed():
    out = in_child("""
        data, tensors = saved()
        for changed in flips(data):
            try:
                refx._core.Mirror.load(changed, tensors)
            except refx.Error as error:
                assert "damaged" in str(error)
            else:
                raise AssertionError("taken for whole")
        print(8 * len(data))
    """)
    assert int(out) > 5000


def test_no_flipped_bit_of_an_old_history_crashes():
    in_child("""
        data, tensors = saved()
        for changed in flips(unsealed(data), step=5):
            try:
                mirror = refx._core.Mirror.load(changed, tensors)
                for step in mirror.steps():
                    try:
                        refx._core.Mirror.load(changed, tensors).reverse([step[0]], "cascade", False)
                    except refx.Error:
                        pass
                mirror.reverse([step[0] for step in mirror.steps()], "cascade", True)
                mirror.save()
            except refx.Error:
                pass
    """)


def test_a_history_that_was_cut_off_is_an_error():
    data, tensors = saved()
    for whole in (data, unsealed(data)):
        for size in range(0, len(whole), 7):
            with pytest.raises(refx.Error, match="is damaged"):
                refx._core.Mirror.load(whole[:size], tensors)
        with pytest.raises(refx.Error, match="is damaged"):
            refx._core.Mirror.load(whole + b"\0", tensors)


def test_a_history_without_a_checksum_still_opens():
    data, tensors = saved()
    assert refx._core.Mirror.load(unsealed(data), tensors).steps() == refx._core.Mirror.load(data, tensors).steps()


def test_a_damaged_history_is_an_error_when_it_is_unpickled():
    data = bytearray(pickle.dumps(rewritten()))
    data[data.index(b"merge-linears", data.index(b"refx.fx 2\n"))] ^= 1
    with pytest.raises(refx.Error, match="the history of this GraphModule is damaged"):
        pickle.loads(bytes(data))


def one_node(args):
    """A model of one node with these arguments, and no steps."""
    none = struct.pack("<Q", 0)
    name = struct.pack("<Q", 1) + b"x"
    node = b"\1" + b"\0" + name + name + args + none + none + none
    return b"refx.fx 1\n" + struct.pack("<QQQ", 0, 0, 1) + node + struct.pack("<QIB", 0, 1, 0)


def nested(depth):
    return struct.pack("<Q", 1) + struct.pack("<BQ", 14, 1) * depth + struct.pack("<BQ", 14, 0)


def test_lists_are_nested_only_so_deep():
    assert refx._core.Mirror.load(one_node(nested(90)), []).live() == [0]
    in_child("""
        for depth in (101, 200_000):
            try:
                refx._core.Mirror.load(one_node(nested(depth)), [])
            except refx.Error as error:
                print(error)
            else:
                raise AssertionError(depth)
    """)


@pytest.mark.parametrize("args", [
    struct.pack("<Q", 2**63),  # so many
    struct.pack("<QBQ", 1, 5, 2**63),  # a text so long
    struct.pack("<QBI", 1, 10, 0),  # itself
    struct.pack("<QBI", 1, 10, 7),  # a node that there is not
    struct.pack("<QBQ", 1, 16, 0),  # a slice of nothing
    struct.pack("<QBB", 1, 6, 200),  # a dtype
    struct.pack("<QBB", 1, 8, 99),  # a layout
    struct.pack("<QBB", 1, 9, 99),  # a memory format
    struct.pack("<QBbb", 1, 7, 99, 0),  # a device
    struct.pack("<QBbb", 1, 7, 0, -7),
    struct.pack("<QB", 1, 18),  # a kind of argument
], ids=str)
def test_a_crafted_argument_is_an_error(args):
    with pytest.raises(refx.Error, match="is damaged"):
        refx._core.Mirror.load(one_node(args), [])


def test_an_argument_of_the_graph_is_nested_only_so_deep():
    def with_argument(depth):
        value = []
        for _ in range(depth):
            value = [value]
        gm = fx.symbolic_trace(Two())
        add = next(n for n in gm.graph.nodes if n.name == "add")
        add.kwargs = {"deep": value}
        return gm

    MergeLinears()(with_argument(90))
    gm = with_argument(150)
    with pytest.raises(refx.Error, match="nested more than 100 deep"):
        MergeLinears()(gm)
    assert log(gm) == []


def approximate():
    """A GraphModule with a step that is approximate, and one that is not."""
    gm = fx.symbolic_trace(Two().eval())
    refx.fx.Rule("store-linear-int8")(gm)
    return gm


def numerics(gm):
    return [step.numerics for step in log(gm)]


class Halved(refx.fx.ReversibleTransformation):
    def transform(self, graph_module):
        with torch.no_grad():
            graph_module.q.weight = nn.Parameter(graph_module.q.weight / 2)
        return graph_module


class HalvedExactly(Halved):
    preserves_computation = True


def test_steps_record_the_numerics_of_their_class():
    gm = rewritten()
    assert numerics(gm) == ["preserved"] * 2
    gm = fx.symbolic_trace(Two())
    Halved()(gm)
    HalvedExactly()(gm)
    assert numerics(gm) == ["approximate", "preserved"]
    assert [str(step).endswith("  approximate") for step in log(gm)] == [True, False]


def test_copies_and_pickles_keep_the_numerics():
    gm = fx.symbolic_trace(Two())
    Halved()(gm)
    MergeLinears()(gm)
    before = numerics(gm)
    assert before == ["approximate", "preserved"]
    assert numerics(copy.deepcopy(gm)) == before
    assert numerics(pickle.loads(pickle.dumps(gm))) == before


def test_an_exact_history_has_the_bytes_of_earlier_versions():
    data, tensors = saved()
    mirror = refx._core.Mirror.load(data, tensors)
    assert [step[-1] for step in mirror.steps()] == ["preserved"] * 2
    assert mirror.save()[0] == data and not data.endswith(struct.pack("<QI", 1, 1))


def test_approximate_steps_of_earlier_versions_are_still_approximate():
    state = History.find(approximate())._state(with_meta=False)
    payload, tensors = unsealed(state["data"]), state["tensors"]
    steps = refx._core.Mirror.load(payload, tensors).steps()
    assert [step[-1] for step in steps] == ["approximate"] * 2
    ids = struct.pack("<Q2I", 2, *(step[0] for step in steps))
    assert payload.endswith(ids)
    payload = payload[:-len(ids)]

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    label = 2 * text("store-linear-int8")  # name and signature; then the parameters, of which there are none
    parameter = struct.pack("<Q", 1) + text("approximate") + b"\x01\x01"  # a bool, true
    assert payload.count(label + bytes(8)) == 2
    payload = payload.replace(label + bytes(8), label + parameter)
    old = refx._core.Mirror.load(payload, tensors)
    assert [step[-1] for step in old.steps()] == ["approximate"] * 2
    assert unsealed(old.save()[0]) == payload  # as it was: nothing is stated twice
