# SPDX-License-Identifier: Apache-2.0
"""Failures in the middle of a change, and changes by other code: nothing is lost or left incomplete."""

import collections
import copy
import gc
import operator
import pickle

import pytest
import torch
from torch import nn

import refx
import refx.fx
from kit import Parallel, Snapshot, trace
from refx.fx import MergeLinears, ReversibleTransformation, Transformation, compose


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.act = Parallel(), nn.ReLU()

    def forward(self, x):
        return self.act(self.block(x))


X = torch.randn(2, 4)


def traced(model=None):
    return trace((model or Net()).eval())


def find(gm, target):
    return next(node for node in gm.graph.nodes if node.target == target)


class Twice(ReversibleTransformation):
    """Adds the result to itself."""

    def transform(self, gm):
        act = find(gm, "act")
        with gm.graph.inserting_after(act):
            double = gm.graph.call_function(torch.add, (act, act))
        act.replace_all_uses_with(double, delete_user_cb=lambda user: user is not double)
        return gm


# ---- others ----------------------------------------------------------------------------------------


def test_a_node_that_was_moved():
    gm = traced()
    expected = gm(X)
    MergeLinears()(gm)
    slices = [node for node in gm.graph.nodes if node.target is operator.getitem]
    slices[-1].append(slices[0])  # behind the others, which nothing minds
    gm.graph.lint()
    gm.recompile()
    torch.testing.assert_close(gm(X), expected)
    assert len(refx.fx.log(gm)) == 1
    Twice()(gm)
    Twice()(gm, reverse=True)
    torch.testing.assert_close(gm(X), expected)
    with pytest.raises(refx.Error, match="changed since by others"):
        MergeLinears()(gm, reverse=True)
    torch.testing.assert_close(gm(X), expected)


def test_a_transformation_that_moves_a_node():
    class Move(ReversibleTransformation):
        def transform(self, gm):
            find(gm, "block.v").append(find(gm, "block.q"))
            return gm

    gm = traced()
    before = Snapshot(gm)
    Move()(gm)
    assert [step.transformation for step in refx.fx.log(gm)] == ["Move"]
    Move()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


def test_marks_that_are_no_marks():
    for value in ("abc", ["abc"], 3, (1, 2), {1, 2}, {"abc"}):
        gm = traced()
        find(gm, "act").transformations = value
        before = Snapshot(gm)
        MergeLinears()(gm)
        assert [step.transformation for step in refx.fx.log(gm)] == ["merge-linears"]
        assert find(gm, "act").transformations is value
        MergeLinears()(gm, reverse=True)
        Snapshot(gm).assert_equals(before)


def test_metadata_that_nodes_share():
    gm = traced()
    find(gm, "act").meta = find(gm, "block.q").meta
    MergeLinears()(gm)
    assert [step.transformation for step in refx.fx.log(gm)] == ["merge-linears"]
    assert refx.fx.bisect(gm, lambda form: True) is not None
    MergeLinears()(gm, reverse=True)
    assert "refx" not in find(gm, "act").meta and not hasattr(find(gm, "act"), "transformations")


def test_a_pattern_does_not_find_what_others_did():
    gm = traced()
    MergeLinears()(gm)
    act = find(gm, "act")
    with gm.graph.inserting_after(act):
        neg = gm.graph.call_function(torch.neg, (act,))
    act.replace_all_uses_with(neg, delete_user_cb=lambda user: user is not neg)
    gm.recompile()
    refx.fx.reverse(gm, "*")
    assert not refx.fx.log(gm)
    find(gm, "block.q")


def test_what_was_set_on_a_container_stays():
    model = Net()
    gm = torch.fx.GraphModule(model, torch.fx.Tracer().trace(model))
    MergeLinears()(gm)
    gm.block.note = "mine"
    MergeLinears()(gm, reverse=True)
    assert gm.block.note == "mine" and not hasattr(model.block, "note")


def test_a_module_inside_itself_is_an_error():
    gm = traced()
    gm.block._modules["me"] = gm.block
    with pytest.raises(RecursionError):
        MergeLinears()(gm)


def test_a_scripted_module_is_left_alone():
    class Scripted(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.act = Parallel(), torch.jit.script(nn.ReLU())

        def forward(self, x):
            return self.act(self.block(x))

    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, m, name):
            return isinstance(m, torch.jit.ScriptModule) or super().is_leaf_module(m, name)

    model = Scripted().eval()
    gm = torch.fx.GraphModule(model, Tracer().trace(model))
    names = [node.name for node in gm.graph.nodes]
    MergeLinears()(gm)
    torch.testing.assert_close(gm(X), model(X))
    MergeLinears()(gm, reverse=True)
    assert [node.name for node in gm.graph.nodes] == names and gm.block.q is model.block.q


def test_names_after_a_pickle_do_not_clash():
    class Muls(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Parallel()

        def forward(self, x):
            return self.block(x * 2) * 3 * 4

    gm = traced(Muls())
    gm.graph.erase_node(gm.graph.call_function(torch.mul, (find(gm, "block.q"), 2)))
    MergeLinears()(gm)
    gm = pickle.loads(pickle.dumps(gm))
    MergeLinears()(gm, reverse=True)
    output = next(node for node in gm.graph.nodes if node.op == "output")
    with gm.graph.inserting_before(output):
        for _ in range(4):
            output.args = (gm.graph.call_function(torch.mul, (output.args[0], 2)),)
    gm.graph.lint()
    assert len({node.name for node in gm.graph.nodes}) == len(list(gm.graph.nodes))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda gm: pickle.loads(pickle.dumps(gm))],
                         ids=["deepcopy", "pickle"])
def test_a_copy_that_others_change_before_it_is_used(copied):
    gm = copied(MergeLinears()(traced()))
    expected = gm(X)
    act = find(gm, "act")
    with gm.graph.inserting_after(act):
        twice = gm.graph.call_function(torch.add, (act, act))
    act.replace_all_uses_with(twice, delete_user_cb=lambda user: user is not twice)
    gm.recompile()
    refx.fx.reverse(gm)
    find(gm, "block.q")
    torch.testing.assert_close(gm(X), 2 * expected)


def test_names_after_steps_and_a_pickle_are_unique():
    gm = traced(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    expected = gm(torch.ones(2, 4))
    fuse = refx.fx.FuseBiasInLinear()
    fuse(gm)
    refx.fx.reverse(gm, 1)
    fuse(gm)
    gm = pickle.loads(pickle.dumps(gm))
    refx.fx.reverse(gm, 2)
    fuse(gm)  # lints
    names = [node.name for node in gm.graph.nodes]
    assert len(set(names)) == len(names)
    assert len(refx.fx.log(gm)) == 2
    torch.testing.assert_close(gm(torch.ones(2, 4)), expected)


Pair = collections.namedtuple("Pair", "a b")


def test_equal_is_not_the_same():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    a = graph.call_function(torch.add, (x, 1), {"out": Pair(2, 0.0)})
    b = graph.call_function(torch.add, (a, 1), {"out": Pair(2.0, -0.0)})
    graph.output(b)
    gm = torch.fx.GraphModule(nn.Module(), graph)

    class Drop(ReversibleTransformation):
        def transform(self, gm):
            for node in gm.graph.nodes:
                node.kwargs = {}
            return gm

    Drop()(gm, lint_and_recompile=False)
    Drop()(gm, lint_and_recompile=False, reverse=True)
    found = [repr(node.kwargs["out"]) for node in gm.graph.nodes if node.kwargs]
    assert found == ["Pair(a=2, b=0.0)", "Pair(a=2.0, b=-0.0)"]


# ---- errors ----------------------------------------------------------------------------------------


def test_a_hook_that_raises():
    gm = traced()
    before = Snapshot(gm)

    def hook(node):
        raise KeyError(node.name)

    gm._register_create_node_hook(hook)
    with pytest.raises(KeyError):
        MergeLinears()(gm)
    gm._unregister_create_node_hook(hook)
    before.assert_equals(Snapshot(gm))
    assert len(gm.graph.nodes) == len(list(gm.graph.nodes))

    MergeLinears()(gm)
    gm._register_erase_node_hook(hook)
    with pytest.raises(KeyError):
        MergeLinears()(gm, reverse=True)
    gm._unregister_erase_node_hook(hook)
    before.assert_equals(Snapshot(gm))  # there was no way back
    assert len(gm.graph.nodes) == len(list(gm.graph.nodes))


def test_an_unreadable_graph_is_read_after_it_was_repaired():
    gm = traced()
    act = find(gm, "act")
    act.target = "gone"
    with pytest.raises(refx.Error, match="gone"):
        MergeLinears()(gm)
    assert "refx" not in gm.meta and "_refx" not in vars(gm)
    act.target = "act"
    MergeLinears()(gm)
    assert len(refx.fx.log(gm)) == 1


class Fails(Transformation):
    def transform(self, gm):
        raise ValueError("mine")


def test_a_composition_that_fails():
    gm = traced()
    before = Snapshot(gm)
    with pytest.raises(ValueError, match="mine"):
        compose(MergeLinears(), Twice(), Fails())(gm)
    before.assert_equals(Snapshot(gm))
    gm(X)


def test_a_transformation_of_several_that_fails():
    class Several(Transformation):
        def transform(self, gm):
            Twice()(gm)
            MergeLinears()(gm)
            raise ValueError("mine")

    gm = traced()
    before = Snapshot(gm)
    with pytest.raises(ValueError, match="mine"):
        Several()(gm)
    before.assert_equals(Snapshot(gm))


def test_a_transformation_around_one_that_finds_nothing():
    class Around(ReversibleTransformation):
        def transform(self, gm):
            refx.fx.FuseBatchNorm2dInConv2d()(gm)
            return Twice().transform(gm)

    gm = traced()
    before = Snapshot(gm)
    Around()(gm)
    assert len(refx.fx.log(gm)) == 1
    Around()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


def test_another_graph_and_then_an_error():
    class Replaces(Transformation):
        def transform(self, gm):
            gm.graph = copy.deepcopy(gm.graph)
            raise ValueError("mine")

    gm = traced()
    MergeLinears()(gm)
    before = Snapshot(gm)
    with pytest.raises(ValueError, match="mine"):
        Replaces()(gm)
    before.assert_equals(Snapshot(gm))
    MergeLinears()(gm, reverse=True)


def test_an_error_in_the_middle_of_an_edit():
    class Half(Transformation):
        def __init__(self, how):
            self.how = how

        def transform(self, gm):
            act, q = find(gm, "act"), find(gm, "x")
            if self.how == "module":
                gm.delete_submodule("act")
            elif self.how == "nodes":
                with gm.graph.inserting_before(act):
                    broken = gm.graph.call_module("act", (q,))
                    broken.target = "nowhere"
                    gm.graph.call_function(torch.neg, (broken,))
                act.prepend(find(gm, "act").args[0])
            elif self.how == "erased":
                act.replace_all_uses_with(act.args[0])
                gm.graph.erase_node(act)
                gm.delete_submodule("act")
            if self.how != "returns":
                raise ValueError("mine")
            act.target = "nowhere"
            return gm

    for how in ("module", "nodes", "erased", "returns"):
        gm = traced()
        before = Snapshot(gm)
        with pytest.raises(refx.Error if how == "returns" else ValueError, match="nowhere|mine"):
            Half(how)(gm)
        before.assert_equals(Snapshot(gm))
        assert len(gm.graph.nodes) == len(list(gm.graph.nodes))
        MergeLinears()(gm)
        again = Snapshot(gm)
        with pytest.raises(ValueError, match="nowhere|mine"):
            Half(how)(gm)
        again.assert_equals(Snapshot(gm))
        MergeLinears()(gm, reverse=True)
        before.assert_equals(Snapshot(gm))


# ---- modules and tensors ---------------------------------------------------------------------------


class Loud(nn.Linear):
    pass


class MakeLoud(ReversibleTransformation):
    """Another class around the same parameters."""

    def transform(self, gm):
        loud = Loud(4, 4)
        loud.weight, loud.bias = gm.act.weight, gm.act.bias
        gm.act = loud
        return gm


def test_a_module_that_was_replaced_returns_after_other_steps():
    model = Net()
    model.act = nn.Linear(4, 4)
    gm = traced(model)
    before = Snapshot(gm)
    MakeLoud()(gm)
    MergeLinears()(gm)
    MergeLinears()(gm, reverse=True)
    MakeLoud()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


def test_a_transformation_that_changes_a_dtype():
    class Double(ReversibleTransformation):
        def transform(self, gm):
            gm.act = copy.deepcopy(gm.act).double()
            return gm

    model = Net()
    model.act = nn.Linear(4, 4)
    gm = traced(model)
    before = Snapshot(gm)
    Double()(gm)
    assert gm.act.weight.dtype == torch.double and len(refx.fx.log(gm)) == 1
    Double()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


def test_another_device_is_not_another_dtype():
    class Renew(ReversibleTransformation):
        def transform(self, gm):
            gm.block = copy.deepcopy(gm.block)
            gm.act = copy.deepcopy(gm.act)
            return gm

    model = Net()
    model.block.v.double()
    model.act = nn.BatchNorm1d(4)
    gm = traced(model)
    dtypes = {name: t.dtype for name, t in gm.state_dict().items()}
    Renew()(gm)
    gm.to("meta")
    Renew()(gm, reverse=True)
    assert {name: t.dtype for name, t in gm.state_dict().items()} == dtypes
    assert all(t.is_meta for t in gm.state_dict().values())


def test_tables_that_are_ordered_dictionaries():
    gm = traced()
    gm.block.__dict__["_modules"] = collections.OrderedDict(gm.block._modules)
    before = Snapshot(gm)
    MergeLinears()(gm)
    MergeLinears()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))
    assert list(reversed(gm.block._modules)) == ["v", "k", "q"]


def test_a_module_of_the_same_name():
    gm = traced()
    gm.block.add_module("q-k-v-merged", nn.ReLU())
    before = Snapshot(gm)
    MergeLinears()(gm)
    MergeLinears()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


def test_modules_that_are_not_called_return():
    class Tidy(ReversibleTransformation):
        def transform(self, gm):
            gm.delete_all_unused_submodules()
            return gm

    gm = traced()
    gm.spare = nn.Dropout(0.25)
    before = Snapshot(gm)
    Tidy()(gm)
    assert not hasattr(gm, "spare")
    Tidy()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


@pytest.mark.parametrize("kind", [nn.Module, nn.ModuleDict])
def test_a_container_that_was_empty_for_a_while(kind):
    class Empty(ReversibleTransformation):
        def transform(self, gm):
            act = find(gm, "box.act")
            act.replace_all_uses_with(act.args[0])
            gm.graph.erase_node(act)
            gm.delete_submodule("box.act")
            return gm

    gm = traced()
    gm.box = kind()
    gm.box.add_module("act", gm.act)
    find(gm, "act").target = "box.act"
    gm.delete_submodule("act")
    gm.recompile()
    before = Snapshot(gm)
    expected = gm(X)
    Empty()(gm)
    assert not gm.box._modules
    Empty()(gm, reverse=True)
    torch.testing.assert_close(gm(X), expected)
    after = Snapshot(gm)
    assert (after.nodes, after.keys) == (before.nodes, before.keys)


def test_a_graph_without_modules_gets_one():
    class Add(ReversibleTransformation):
        def transform(self, gm):
            gm.act = nn.ReLU()
            output = next(node for node in gm.graph.nodes if node.op == "output")
            with gm.graph.inserting_before(output):
                output.args = (gm.graph.call_module("act", output.args),)
            return gm

    gm = torch.fx.symbolic_trace(lambda x: x + 1)
    before = Snapshot(gm)
    Add()(gm)
    Add()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


def test_the_order_of_names_that_came_later():
    gm = traced(nn.Sequential(nn.Linear(4, 4)))
    refx.fx.FuseBiasInLinear()(gm)
    gm.c, gm.d, gm.e = (nn.Linear(4, 4) for _ in range(3))
    output = next(node for node in gm.graph.nodes if node.op == "output")
    with gm.graph.inserting_before(output):
        c, d = (gm.graph.call_module(name, output.args) for name in "cd")
        output.args = ((d, gm.graph.call_module("e", (c,))),)
    keys = list(gm.state_dict())
    MergeLinears()(gm)
    MergeLinears()(gm, reverse=True)
    assert list(gm.state_dict()) == keys


def test_a_tensor_class_of_its_own_is_left_alone():
    class Special(torch.Tensor):
        pass

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("c", torch.tensor(7.0).as_subclass(Special))

        def forward(self, x):
            return x / self.c

    tracer = torch.fx.Tracer()
    tracer.proxy_buffer_attributes = True
    net = Net()
    gm = torch.fx.GraphModule(net, tracer.trace(net))
    refx.fx.ChangeTrueDivToMulByInverse()(gm)
    assert type(gm(X)) is Special and not refx.fx.log(gm)


def test_complex_arguments_come_back():
    class Other(ReversibleTransformation):
        def transform(self, gm):
            for node in gm.graph.nodes:
                if node.target is torch.mul:
                    node.target = torch.div
            return gm

    gm = torch.fx.symbolic_trace(lambda x: torch.mul(x, 2j))
    before = Snapshot(gm)
    Other()(gm)
    Other()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


def test_what_others_came_to_use_is_not_changed_back():
    net = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)).eval()
    net[1].running_mean.fill_(3.0)
    gm = traced(net)
    refx.fx.FuseBatchNorm2dInConv2d()(gm)
    x = next(iter(gm.graph.nodes))
    output = next(node for node in gm.graph.nodes if node.op == "output")
    conv = next(node for node in gm.graph.nodes if node.op == "call_module")
    with gm.graph.inserting_before(output):
        again = gm.graph.call_module(conv.target, (x,))
    output.args = ((output.args[0], again),)
    gm.recompile()
    before = Snapshot(gm)
    with pytest.raises(refx.Error, match="changed since by others"):
        refx.fx.reverse(gm)
    after = Snapshot(gm)
    assert (after.nodes, after.keys) == (before.nodes, before.keys)


def test_a_step_of_another_graph_module():
    a, b = traced(), traced(nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)))
    MergeLinears()(a)
    refx.fx.FuseBatchNorm2dInConv2d()(b)
    with pytest.raises(refx.Error, match="not a step of this GraphModule"):
        refx.fx.reverse(b, refx.fx.log(a)[0])
    assert len(refx.fx.log(b)) == 1


def test_a_transformation_made_of_others_is_reversed_as_one():
    class Both(ReversibleTransformation):
        def transform(self, gm):
            MergeLinears()(gm)
            return Twice().transform(gm)

    gm = traced()
    before = Snapshot(gm)
    Both()(gm)
    Both()(gm, reverse=True)
    before.assert_equals(Snapshot(gm))


def test_a_derived_class_knows_its_nodes():
    class Mine(MergeLinears):
        pass

    gm = traced()
    Mine()(gm)
    assert len(Mine().get_transformed_nodes(gm)) == 3
    Mine()(gm, reverse=True)
    assert not Mine().get_transformed_nodes(gm)


def test_nothing_is_kept_after_many_cycles():
    def alive():
        gc.collect()
        objects = gc.get_objects()
        kinds = (nn.Module, torch.Tensor, dict, list, tuple, set)
        nodes = sum(isinstance(thing, torch.fx.Node) for thing in objects)
        # torch.fx remembers the name of every node that there ever was, and so the node.
        return sum(isinstance(thing, kinds) for thing in objects) - 10 * nodes

    gm = traced()
    for _ in range(3):
        MergeLinears()(gm)
        MergeLinears()(gm, reverse=True)
    count = alive()
    for _ in range(10):
        MergeLinears()(gm)
        MergeLinears()(gm, reverse=True)
    assert alive() < count + 10
