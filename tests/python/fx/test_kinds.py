# SPDX-License-Identifier: Apache-2.0
"""Every kind of GraphModule that PyTorch hands out: apply, run, train, copy, undo."""

import contextlib
import copy
import functools
import io
import operator
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim
from torch.fx import GraphModule, Transformer, replace_pattern, symbolic_trace
from torch.fx.experimental.const_fold import FoldedGraphModule, split_const_subgraphs
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.split_module import split_module

import refx
import zoo
from kit import Snapshot, flat
from refx.fx import (
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm1dInLinear,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    NothingReversed,
    ReversibleTransformation,
    compose,
    explain,
    log,
)
from refx.fx._history import History


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x):
        return self.q(x) * self.k(x) / 7 + self.v(x)


class Heads(nn.Module):
    """Calls functions: what it holds are tensors, not modules, however the graph is made."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(3, 6))
        self.bias_a, self.bias_b = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(3))
        self.register_buffer("scale", torch.tensor([2.0, 3.0, 5.0]), persistent=False)

    def forward(self, x):
        a, b = F.linear(x, self.a, self.bias_a), F.linear(x, self.b, self.bias_b)
        return torch.cat([a, b / self.scale], -1)


class Net(nn.Module):
    """A place for each transformation; tied weights, buffers that are no state, a constant."""

    def __init__(self):
        super().__init__()
        self.embed, self.unembed = nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.unembed.weight = self.embed.weight
        self.block, self.heads = Block(), Heads()
        self.fc, self.norm1 = nn.Linear(4, 5), nn.BatchNorm1d(5)
        self.conv, self.norm2 = nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3)
        self.register_buffer("scale", torch.tensor([7.0, 3.0, 5.0]), persistent=False)

    def forward(self, x, image):
        x = self.unembed(torch.tanh(self.embed(x)))
        y = self.norm1(self.fc(torch.relu(self.block(x))))
        z = self.norm2(self.conv(image)).mean((2, 3)) / self.scale * torch.tensor([1.0, -1.0, 2.0])
        return y, self.heads(x), z


MERGE, BIAS, DIV = MergeLinears(), FuseBiasInLinear(), ChangeTrueDivToMulByInverse()
NORM2, NORM1 = FuseBatchNorm2dInConv2d(), FuseBatchNorm1dInLinear()
ALL = compose(MERGE, BIAS, DIV, NORM2, NORM1)
TRAINABLE = compose(MERGE, BIAS, DIV)


def net():
    torch.manual_seed(0)
    return zoo.randomize(Net()).eval()


@functools.cache
def inputs():
    torch.manual_seed(1)
    return torch.randn(3, 6), torch.randn(3, 2, 4, 4)


@functools.cache
def program(strict=False, dynamic=False, decomposed=False, loaded=False, unflattened=False):
    batch = Dim("batch", min=2, max=64)
    shapes = {"x": {0: batch}, "image": {0: batch}} if dynamic else None
    made = torch.export.export(net(), inputs(), strict=strict, dynamic_shapes=shapes)
    if decomposed:
        made = made.run_decompositions()
    if loaded:
        file = io.BytesIO()
        torch.export.save(made, file)
        file.seek(0)
        made = torch.export.load(file)
    return made


def exported(**options):
    return program(**options).module(), inputs()


def traced():
    return symbolic_trace(net()), inputs()


def unflattened(path):
    outer = torch.export.unflatten(program(unflattened=True))  # one of its own: it is changed
    inner = outer.get_submodule(path)
    return inner.graph_module, arguments(outer, inner)


def arguments(outer, inner):
    """What a part of a model is called with."""
    seen = []
    hook = inner.register_forward_pre_hook(lambda _, args: seen.append(args))
    outer(*inputs())
    hook.remove()
    return tuple(value.detach() for value in seen[0])


def split(number):
    model = net()
    late = ("norm1", "heads", "linear", "cat", "truediv_2")
    outer = split_module(symbolic_trace(model), model, lambda node: int(node.name.startswith(late)))
    inner = outer.get_submodule(f"submod_{number}")
    return inner, arguments(outer, inner)


def functional_call():
    model = net()
    made = make_fx(lambda state, *args: torch.func.functional_call(model, state, args))
    state = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return made(state, *inputs()), (state, *inputs())


def compiled():
    seen = []

    def backend(gm, args):
        seen.append((gm, args))
        return gm.forward

    torch._dynamo.reset()
    torch.compile(net(), backend=backend)(*inputs())
    gm, args = seen[0]
    gm.real_recompile()  # it puts that off
    return gm, [value.detach() for value in args]


def after(a_pass, made=traced, **options):
    gm, args = made(**options)
    return a_pass(gm), args


def transformer(gm):
    return Transformer(gm).transform()


def pattern(gm):
    aten = bool(gm.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default))
    old, new = ((torch.ops.aten.tanh.default, torch.ops.aten.sigmoid.default) if aten else
                (torch.tanh, torch.sigmoid))
    assert replace_pattern(gm, lambda x: old(x), lambda x: new(x))
    return gm


def folded(gm):
    """Something to fold, and folded."""
    node = next(n for n in gm.graph.nodes if n.op == "get_attr" and "bias" in n.name)
    with gm.graph.inserting_after(node):
        twice = gm.graph.call_function(operator.mul, (node, 2))
    node.replace_all_uses_with(twice, lambda user: user is not twice)
    made = split_const_subgraphs(gm)
    made.run_folding()
    return made


def dead_code(gm):
    x = next(node for node in gm.graph.nodes if node.op == "placeholder")
    with gm.graph.inserting_before(next(iter(reversed(gm.graph.nodes)))):
        gm.graph.call_function(torch.neg, (x,))
    assert gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def shapes(gm):
    ShapeProp(gm).propagate(*inputs())
    return gm


def rewrapped(gm):
    return GraphModule(gm, gm.graph)


# Each makes a GraphModule and what it is called with; and how many steps ALL takes.
KINDS = {
    "traced": (traced, 9),
    "traced again": (lambda: after(symbolic_trace), 9),
    "a GraphModule of a GraphModule": (lambda: after(rewrapped), 9),
    "inside a plain module": (lambda: (nn.Sequential(traced()[0])[0], inputs()), 9),
    "exported": (exported, 8),
    "exported, strict": (lambda: exported(strict=True), 8),
    "exported, dynamic": (lambda: exported(dynamic=True), 8),
    "exported, decomposed": (lambda: exported(decomposed=True), 3),  # no linears, no batch norms
    "exported, loaded": (lambda: exported(loaded=True), 8),
    "unflattened": (lambda: unflattened(""), 1),  # calls modules of classes of its own
    "unflattened part": (lambda: unflattened("heads"), 3),
    "make_fx": (lambda: (make_fx(net())(*inputs()), inputs()), 3),
    "make_fx, functional_call": (functional_call, 3),
    "torch.compile": (compiled, 1),
    "split, first part": (lambda: split(0), 5),
    "split, second part": (lambda: split(1), 0),  # its weights are inputs
    "traced, Transformer": (lambda: after(transformer), 9),
    "traced, replace_pattern": (lambda: after(pattern), 9),
    "traced, const_fold": (lambda: after(folded), 9),
    "traced, dead code": (lambda: after(dead_code), 9),
    "traced, shapes": (lambda: after(shapes), 10),
    "exported, Transformer": (lambda: after(transformer, exported), 6),  # it drops the shapes
    "exported, replace_pattern": (lambda: after(pattern, exported), 8),
    "exported, const_fold": (lambda: after(folded, exported), 8),
    "exported, dead code": (lambda: after(dead_code, exported), 8),
    "exported, shapes": (lambda: after(shapes, exported), 8),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def assert_close(found, expected):
    for a, b in zip(flat(found), flat(expected), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def assert_same(found, expected):
    assert all(torch.equal(a, b) for a, b in zip(flat(found), flat(expected), strict=True))


def assert_only_by_refx(gm):
    """Nobody is said to have changed what nobody changed."""
    history = History.find(gm)
    if history is not None:
        history.read(gm)
        assert [s for s in history.steps() if s.transformation == "changes by others"] == []


def test_apply_run_undo(kind):
    make, steps = kind
    gm, args = make()
    before, code, expected = Snapshot(gm), gm.code, gm(*args)
    ALL(gm)
    assert len(log(gm)) == steps
    assert_close(gm(*args), expected)
    assert_only_by_refx(gm)
    ALL(gm, reverse=True)
    assert gm.code == code
    Snapshot(gm).assert_equals(before)
    assert_same(gm(*args), expected)


def test_one_after_the_other(kind):
    """Each is read before the next, and taken back out of order."""
    gm, args = kind[0]()
    before, code = Snapshot(gm), gm.code
    for t in (MERGE, BIAS, DIV, NORM2, NORM1):
        t(gm)
    for t in (DIV, NORM1, MERGE, NORM2, BIAS):
        t(gm, reverse=True)
    assert gm.code == code
    Snapshot(gm).assert_equals(before)


def by_pickle(gm):
    return pickle.loads(pickle.dumps(gm))


def copied(gm, by):
    """A copy, where torch can make one that works."""
    if isinstance(gm, FoldedGraphModule):
        pytest.skip("torch's copies of it lack attributes")
    try:
        return by(gm)
    except (AttributeError, TypeError, RuntimeError, pickle.PicklingError) as error:
        pytest.skip(f"torch cannot: {error}")


def calls(gm):
    return sorted((node.op, str(node.target)) for node in gm.graph.nodes)


@pytest.mark.parametrize("by", [copy.deepcopy, by_pickle])
def test_copies(kind, by):
    gm, args = kind[0]()
    expected, code, transient = gm(*args), gm.code, set(gm._non_persistent_buffers_set)
    plain = copied(gm, by)
    plain(*args)  # some put off generating their code
    torch_changes_it = calls(plain) != calls(gm)  # unpickling traces again, and computes constants
    ALL(gm)
    gm(*args)
    rewritten = Snapshot(gm)
    other = by(gm)
    assert_same(other(*args), gm(*args))
    if not torch_changes_it:
        assert_only_by_refx(other)
    try:
        ALL(other, reverse=True)
    except refx.Error as error:
        assert torch_changes_it and "changed since by others" in str(error)
        return
    assert_same(other(*args), expected)
    # torch's copies make buffers of the root persistent; one that returns is as it was.
    plain._non_persistent_buffers_set |= transient
    assert calls(other) == calls(plain) and list(other.state_dict()) == list(plain.state_dict())
    if by is copy.deepcopy:
        assert other.code == code
        found, wanted = (Snapshot(m, objects=False, meta=False) for m in (other, plain))
        found.assert_equals(wanted)
    Snapshot(gm).assert_equals(rewritten)


def test_inside_a_plain_module(kind):
    """The whole is copied; the part is taken back in the copy, and stays as it is."""
    gm, args = kind[0]()
    expected, code = gm(*args), gm.code
    copied(gm, copy.deepcopy)
    outer = nn.ModuleDict({"inner": gm})
    ALL(outer["inner"])
    rewritten = gm.code
    other = copy.deepcopy(outer)
    ALL(other["inner"], reverse=True)
    assert_same(other["inner"](*args), expected)
    assert (other["inner"].code, gm.code) == (code, rewritten)


def train(gm, args):
    sum(value.square().sum() for value in flat(gm(*args))).backward()
    with torch.no_grad():
        for parameter in gm.parameters():
            if parameter.grad is not None:
                parameter -= 1e-3 * parameter.grad
                parameter.grad = None


@contextlib.contextmanager
def weights_put_back(gm):
    """The modules of an exported program all have the same weights."""
    kept = [(tensor, tensor.detach().clone()) for tensor in gm.parameters()]
    yield
    with torch.no_grad():
        for tensor, value in kept:
            tensor.copy_(value)


def test_train_a_step(kind):
    plain, args = kind[0]()
    if not any(parameter.requires_grad for parameter in plain.parameters()):
        pytest.skip("it has no parameters")
    first = Snapshot(plain, objects=False)
    with weights_put_back(plain):
        train(plain, args)
        wanted = Snapshot(plain, objects=False)
    gm, args = kind[0]()
    before, code = Snapshot(gm, objects=False), gm.code
    with weights_put_back(gm):
        TRAINABLE(gm)
        train(gm, args)
        assert_only_by_refx(gm)
        TRAINABLE(gm, reverse=True)
        found = Snapshot(gm, objects=False)
    assert gm.code == code
    assert (found.nodes, found.modules, found.keys) == (before.nodes, before.modules, before.keys)
    for a, b, c in zip(found.tensors, wanted.tensors, first.tensors, strict=True):
        assert a[:10] + a[11:] == b[:10] + b[11:] == c[:10] + c[11:]
        torch.testing.assert_close(a[10], b[10], rtol=1e-4, atol=1e-6)
        assert torch.equal(a[10], c[10]) == torch.equal(b[10], c[10])
    with pytest.warns(NothingReversed):  # nothing that is there claims to be made by refx
        TRAINABLE(gm, reverse=True)


# ---- changed by others: said when it is so, and only then --------------------------------------------


def made(gm):
    """A node that refx put in, or made another."""
    return next(node for node in gm.graph.nodes if hasattr(node, "transformations"))


def rewrite_it(gm):
    made(gm).kwargs = {**made(gm).kwargs, "unknown": 1}


def replace_it(gm):
    node = made(gm)
    with gm.graph.inserting_after(node):
        other = gm.graph.create_node(node.op, node.target, node.args, node.kwargs)
    node.replace_all_uses_with(other)
    gm.graph.erase_node(node)


@pytest.mark.parametrize("change", [rewrite_it, replace_it])
def test_a_change_in_the_way_is_seen(kind, change):
    make, steps = kind
    if steps == 0:
        pytest.skip("nothing is rewritten")
    gm, _ = make()
    ALL(gm, lint_and_recompile=False)
    change(gm)
    with pytest.raises(refx.Error, match="changed since by others"):
        ALL(gm, reverse=True, lint_and_recompile=False)


def fill_again(gm):
    gm.block.q.weight = nn.Parameter(torch.zeros(4, 6))


def call_it(gm):
    gm.block.q = nn.Identity()
    output = next(iter(reversed(gm.graph.nodes)))
    with gm.graph.inserting_before(output):
        extra = gm.graph.call_module("block.q", (output.args[0][0],))
    output.args = ((output.args[0], extra),)


def merged(gm):
    """What holds the merged weight."""
    node = next(node for node in gm.graph.nodes if "merged" in str(node.target))
    return gm.get_submodule(node.target.rpartition(".")[0])


def another_shape(gm):
    merged(gm).weight = nn.Parameter(torch.zeros(2, 2))


def another_kind(gm):
    holder = merged(gm)
    weight = holder.weight.detach()
    del holder.weight
    holder.register_buffer("weight", weight)


EXPORTED = [functools.partial(exported, **{option: True}) for option in ("loaded", "strict", "dynamic")]


@pytest.mark.parametrize("change", [fill_again, call_it, another_shape, another_kind])
@pytest.mark.parametrize("make", EXPORTED)
def test_what_is_done_to_an_emptied_container_is_seen(make, change):
    gm, _ = make()
    MERGE(gm)
    change(gm)
    with pytest.raises(refx.Error, match="changed since by others|is broken"):
        MERGE(gm, reverse=True)


def unused(gm):
    gm.delete_all_unused_submodules()
    return gm


@pytest.mark.parametrize("a_pass", [dead_code, shapes, pattern, unused])
@pytest.mark.parametrize("make", [traced, *EXPORTED])
def test_a_pass_in_between_stays(make, a_pass):
    plain, args = make()
    a_pass(plain)
    gm, _ = make()
    ALL(gm)
    assert_close(a_pass(gm)(*args), plain(*args))
    ALL(gm, reverse=True)
    assert gm.code == plain.code
    for module in (gm, plain):  # torch's hooks are other ones in each
        module._forward_hooks.clear()
        module._forward_pre_hooks.clear()
    found, wanted = (Snapshot(m, objects=False, meta=False) for m in (gm, plain))
    found.assert_equals(wanted)
    assert_same(gm(*args), plain(*args))


@pytest.mark.parametrize("a_pass", [transformer, folded])
@pytest.mark.parametrize("make", [traced, *EXPORTED])
def test_another_GraphModule_has_no_history_and_says_so(make, a_pass):
    gm, args = make()
    before, code, expected = Snapshot(gm), gm.code, gm(*args)
    MERGE(gm)
    other = a_pass(copy.deepcopy(gm) if a_pass is folded else gm)
    with pytest.raises(refx.Error, match="history is gone"):
        MERGE(other, reverse=True)
    MERGE(gm, reverse=True)
    assert gm.code == code
    Snapshot(gm).assert_equals(before)
    assert_same(gm(*args), expected)


class DropQ(ReversibleTransformation):
    """Somebody's own, which empties a container, or takes that away too."""

    def __init__(self, container):
        self.container = container

    def transform(self, gm):
        nodes = [n for n in gm.graph.nodes if n.op == "get_attr" and n.target.startswith("block.q.")]
        linear = next(iter(nodes[0].users))
        with gm.graph.inserting_before(linear):
            zeros = gm.graph.call_function(torch.ops.aten.new_zeros.default, (linear.args[0], [3, 4]))
        linear.replace_all_uses_with(zeros)
        for node in (linear, *nodes):
            gm.graph.erase_node(node)
        if self.container:
            del gm.block.q
        else:
            del gm.block.q.weight, gm.block.q.bias
        return gm


@pytest.mark.parametrize("container", [False, True])
@pytest.mark.parametrize("make", EXPORTED)
@pytest.mark.parametrize("by", [lambda gm: gm, copy.deepcopy])
def test_a_transformation_of_ones_own(make, container, by):
    gm, args = make()
    before, code, expected = Snapshot(gm), gm.code, gm(*args)
    own = DropQ(container)
    both = compose(own, ALL)
    both(gm)
    assert_only_by_refx(gm)
    other = by(gm)
    both(other, reverse=True)
    assert other.code == code
    assert_same(other(*args), expected)
    if other is gm and not container:
        Snapshot(gm).assert_equals(before)
    keys = list(by(make()[0]).state_dict())
    assert list(other.state_dict()) == [key for key in keys if key != "scale"]


def test_parameters_that_are_inputs_are_refused():
    gm, _ = compiled()
    for t in (MERGE, BIAS, NORM1, NORM2):
        found = explain(t, gm)
        assert not found.sites and "is an input, not stored" in str(found)


def test_an_unflattened_whole():
    """It shares graphs with its GraphModules, but not what they hold: so it waits for the undo."""
    outer = torch.export.unflatten(program(unflattened=True))
    expected = outer(*inputs())
    ALL(outer.heads.graph_module)
    with pytest.raises(RuntimeError, match="nonexistent target a-b-merged"):
        outer(*inputs())
    ALL(outer.heads.graph_module, reverse=True)
    assert_same(outer(*inputs()), expected)
