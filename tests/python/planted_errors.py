# SPDX-License-Identifier: Apache-2.0
"""Errors to plant into an exported program, with torch alone, and how far they move its results.

`candidates(program)` lists them. Inside of `with error.planted():` the program has the error.
"""

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from numerics import hint

aten = torch.ops.aten
CONVOLUTIONS = (aten.conv1d.default, aten.conv2d.default, aten.conv2d.padding, aten.convolution.default,
                aten.conv_transpose2d.input)
DIVISIONS = {aten.div.Tensor: aten.mul.Tensor, aten.div_.Tensor: aten.mul_.Tensor}
EPSILON = {aten.layer_norm.default: 4, aten.native_layer_norm.default: 4, aten.batch_norm.default: 7,
           aten._native_batch_norm_legit_no_training.default: 6}  # where its argument stands
STATISTICS = {aten.batch_norm.default: (3, 4), aten._native_batch_norm_legit_no_training.default: (3, 4)}


@dataclasses.dataclass
class PlantedError:
    kind: str
    where: str
    planted: Callable

    def __str__(self):
        return f"{self.kind}, {self.where}"


@contextlib.contextmanager
def other_state(values, new):
    """`values` is the program's state or its constants."""
    old = {key: values[key] for key in new}
    for key, tensor in new.items():
        tensor = tensor.detach().contiguous()
        is_parameter = isinstance(old[key], torch.nn.Parameter)
        values[key] = torch.nn.Parameter(tensor, old[key].requires_grad) if is_parameter else tensor
    yield
    values.update(old)


@contextlib.contextmanager
def other_calls(*changes):
    """Each change: a node, what it calls, its arguments."""
    old = [(node, node.target, node.args, node.kwargs) for node, *_ in changes]
    make_calls(changes)
    yield
    make_calls(old)


def make_calls(changes):
    for node, target, args, kwargs in changes:
        node.target, node.args, node.kwargs = target, args, kwargs


class ProgramView:
    """An exported program, with what the functions need that look for nodes to plant errors into."""

    def __init__(self, program):
        self.program = program
        self.nodes = [n for n in program.graph.nodes if n.op == "call_function"]
        self.keys = {s.arg.name: s.target for s in program.graph_signature.input_specs
                     if s.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)}
        self.used = {self.keys[n.name]: n for n in program.graph.nodes if n.name in self.keys and n.users}

    def values(self, key):
        return self.program.state_dict if key in self.program.state_dict else self.program.constants

    def tensor(self, key):
        return self.values(key)[key]

    def calls(self, *targets):
        return [n for n in self.nodes if n.target in targets]

    def weights(self, least=2):
        """Names of the floating-point tensors that the program reads."""
        return [k for k in self.used if (t := self.tensor(k)).is_floating_point() and t.numel() and t.dim() >= least]

    def key_of(self, node, i):
        """The name of the tensor that is the i-th argument, if it is one of the program's own."""
        arg = node.args[i] if len(node.args) > i else None
        return self.keys.get(arg.name) if isinstance(arg, torch.fx.Node) else None

    def set(self, key, new):
        return lambda: other_state(self.values(key), {key: new})


def call(*changes):
    return lambda: other_calls(*changes)


def with_args(node, *args, **kwargs):
    return node, node.target, args, {**node.kwargs, **kwargs}


def with_arg(node, i, value):
    return with_args(node, *node.args[:i], value, *node.args[i + 1 :])


def shifted(node):
    """The columns one further, or one back where there is none further."""
    dim, *ends = node.args[1:]
    size = hint(node.args[0].meta["val"].shape[dim])
    if not all(isinstance(end, int) and end >= 0 for end in ends):
        return None
    ends = [min(end, size) for end in ends]
    last = ends[0] if node.target is aten.select.int else ends[1] - 1
    by = 1 if last + 1 < size else -1
    return with_args(node, *node.args[:2], *(end + by for end in ends)) if ends[0] + by >= 0 else None


# ---- kinds: each gives (where, how to plant it) -----------------------------------------------


def scaled(p, by):
    for key in p.weights():
        yield key, p.set(key, p.tensor(key) * by)


def one_element(p):
    """The largest element with another sign."""
    for key in p.weights(1):
        new = p.tensor(key).detach().clone().contiguous()
        new.view(-1)[new.abs().argmax()] *= -1
        yield key, p.set(key, new)


def swapped(p):
    """Queries and keys, or other linears of one input and one shape; or the slices of what they were merged to."""
    for a, b in itertools.combinations(p.calls(aten.linear.default), 2):
        keys = p.key_of(a, 1), p.key_of(b, 1)
        if a.args[0] is b.args[0] and None not in keys and keys[0] != keys[1]:
            x, y = map(p.tensor, keys)
            if x.shape == y.shape and x.dtype == y.dtype:
                yield f"{keys[0]} and {keys[1]}", call(with_arg(a, 1, b.args[1]), with_arg(b, 1, a.args[1]))
    for a, b in itertools.combinations(p.calls(aten.slice.Tensor), 2):
        if a.args[:2] == b.args[:2] and a.args != b.args and a.meta["val"].shape == b.meta["val"].shape:
            yield f"{a} and {b}", call(with_args(a, *b.args), with_args(b, *a.args))


def bias_dropped(p):
    for node in p.calls(aten.linear.default, *CONVOLUTIONS):
        if len(node.args) > 2 and node.args[2] is not None:
            yield str(node), call(with_arg(node, 2, None))
    for node in p.calls(aten.constant_pad_nd.default):  # a column of ones, for which the weight has the bias
        yield str(node), call(with_args(node, *node.args[:2], 0.0))


def off_by_one(p):
    for node in p.calls(aten.select.int) + [n for n in p.calls(aten.slice.Tensor) if len(n.args) == 4]:
        if change := shifted(node):
            yield str(node), call(change)


def transposed(p):
    for key in p.weights():
        t = p.tensor(key)
        if t.dim() == 2 and t.shape[0] == t.shape[1] > 1:
            yield key, p.set(key, t.t())


def other_eps(p):
    for node in p.calls(*EPSILON):
        at = EPSILON[node.target]
        if len(node.args) > at:
            yield str(node), call(with_arg(node, at, node.args[at] + 1e-3))
    for node in p.calls(aten.add.Tensor):
        if isinstance(node.args[1], float) and 0 < node.args[1] < 1e-3:
            yield str(node), call(with_arg(node, 1, node.args[1] + 1e-3))


def stale_statistics(p):
    """Means and variances as they are before training."""
    for node in p.calls(*STATISTICS):
        mean, variance = (p.key_of(node, i) for i in STATISTICS[node.target])
        if mean:
            yield mean, p.set(mean, torch.zeros_like(p.tensor(mean)))
        if variance:
            yield variance, p.set(variance, torch.ones_like(p.tensor(variance)))


def wrong_constant(p):
    """x / c as x * c, or as x * 1.001 / c; a factor that is off; attention with another scale."""
    for node in p.calls(*DIVISIONS):
        by = node.args[1]
        if isinstance(by, (int, float)) and by and math.isfinite(1 / by) and math.isfinite(1.001 / by):
            for factor in (by, 1.001 / by):
                yield f"{node} * {factor:.4g}", call((node, DIVISIONS[node.target], (node.args[0], factor), {}))
    for node in p.calls(aten.mul.Tensor, aten.mul_.Tensor):
        if isinstance(node.args[1], float) and node.args[1]:
            yield str(node), call(with_arg(node, 1, node.args[1] * 1.001))
    for node in p.calls(aten.scaled_dot_product_attention.default):
        scale = 1.01 / math.sqrt(node.args[0].meta["val"].shape[-1])
        yield str(node), call(with_args(node, *node.args, scale=scale))
    for key in p.weights(0):
        if p.tensor(key).dim() == 0:
            yield key, p.set(key, p.tensor(key) * 0.99)


def head_zeroed(p):
    """A quarter of the rows: what one of four heads reads."""
    for key in {p.key_of(linear, 1): None for linear in p.calls(aten.linear.default)}:
        if key and (rows := p.tensor(key).shape[0]) >= 4:
            new = p.tensor(key).detach().clone()
            new[: rows // 4] = 0
            yield key, p.set(key, new)


def mask_dropped(p):
    for node in p.calls(aten.scaled_dot_product_attention.default):
        if len(node.args) > 3 and node.args[3] is not None:
            yield str(node), call(with_arg(node, 3, None))


def tables(p):
    """Names of the tensors that numbers of the same shape are multiplied by, element by element: cosines and sines."""
    for key in p.weights():
        readers = [*p.used[key].users]
        while any(n.target in (aten.unsqueeze.default, aten.expand.default) for n in readers):
            readers = [*itertools.chain.from_iterable(n.users for n in readers)]
        if p.tensor(key).shape[-2] > 1 and readers and all(n.target is aten.mul.Tensor for n in readers):
            yield key


def changed_rows(table, kind):
    """The table with its rows one further; or one row twice; or one element off by a thousandth."""
    if kind == "rolled":
        return table.roll(1, -2)
    if kind == "off by one row":
        return torch.cat([table[..., 1:, :], table[..., -1:, :]], -2)
    new = table.detach().clone().contiguous()
    new.view(-1)[new.abs().argmax()] *= 1.001
    return new


def wrong_table(p):
    keys = [*tables(p)]
    for key in keys:
        for kind in ("rolled", "off by one row", "one element"):
            yield f"{key} {kind}", p.set(key, changed_rows(p.tensor(key), kind))
    for a, b in itertools.combinations(keys, 2):
        x, y = p.tensor(a), p.tensor(b)
        if x.shape == y.shape and p.values(a) is p.values(b):
            yield f"{a} and {b}", lambda a=a, b=b, x=x, y=y: other_state(p.values(a), {a: y, b: x})


def wrong_frequencies(p):
    for key in p.weights(1):
        if key.endswith("inv_freq"):
            yield key, p.set(key, p.tensor(key) * 1.0001)


KINDS = {
    "weight x 1.1": lambda p: scaled(p, 1.1),
    "weight x 1.01": lambda p: scaled(p, 1.01),
    "weight x 1.001": lambda p: scaled(p, 1.001),
    "one element": one_element,
    "swapped": swapped,
    "bias dropped": bias_dropped,
    "off by one": off_by_one,
    "transposed": transposed,
    "other eps": other_eps,
    "stale statistics": stale_statistics,
    "wrong constant": wrong_constant,
    "head zeroed": head_zeroed,
    "mask dropped": mask_dropped,
    "wrong table": wrong_table,
    "wrong frequencies": wrong_frequencies,
}


def candidates(program):
    place = ProgramView(program)
    return [PlantedError(kind, where, plant) for kind, find in KINDS.items() for where, plant in find(place)]


def folded_with_other_eps(program, original):
    """Weights into which a batch norm was folded, as if its eps had been another."""
    old, new = ProgramView(original), ProgramView(program)
    for norm in old.calls(*STATISTICS):
        keys = old.key_of(norm.args[0], 1), old.key_of(norm, 1), old.key_of(norm, STATISTICS[norm.target][1])
        if None in keys:
            continue
        weight, gain, variance = (old.tensor(key).detach().double() for key in keys)
        if weight.shape[0] != gain.numel():
            continue  # transposed
        by_row = (-1, *[1] * (weight.dim() - 1))
        variance = variance + norm.args[EPSILON[norm.target]]
        folded = weight * (gain / variance.sqrt()).view(by_row)
        ratio = (variance / (variance + 1e-2)).sqrt().view(by_row)
        for key in new.weights():
            now = new.tensor(key).detach().double()
            if now.shape[0] == len(folded) and now.dim() == folded.dim():
                part = now[:, : folded.shape[1]]  # a fused bias is one more column
                if part.shape == folded.shape and torch.allclose(part, folded, rtol=1e-2, atol=1e-6):
                    yield PlantedError("folded with another eps", key, new.set(key, (now * ratio).to(new.tensor(key).dtype)))


# ---- how far an error moves the results -------------------------------------------------------

WIDER = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
         torch.complex64: torch.complex128}


def widened(value):
    if isinstance(value, torch.Tensor):
        return value.detach().to(WIDER.get(value.dtype, value.dtype)).clone()
    return WIDER.get(value, value) if isinstance(value, torch.dtype) else value


class InDouble(torch.fx.Interpreter):
    """Runs a graph in fp64: its inputs are given so, and where it names a narrower type it gets the wide one."""

    def call_function(self, target, args, kwargs):
        if target is aten._assert_tensor_metadata.default:
            return None
        args, kwargs = pytree.tree_map(lambda v: widened(v) if isinstance(v, torch.dtype) else v, (args, kwargs))
        return super().call_function(target, args, kwargs)


def exactly(program, args, kwargs):
    """What the graph gives in fp64: results, and what it writes."""
    inputs = pytree.tree_map(widened, program._graph_module_flat_inputs(args, kwargs))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            out = InDouble(program.graph_module, garbage_collect_values=False).run(*inputs)
    finally:
        torch.set_default_dtype(before)
    return tensors(out)


def in_its_own_types(program, args, kwargs):
    """The same without fp64, which would draw other random numbers."""
    inputs = pytree.tree_map(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v,
                             program._graph_module_flat_inputs(args, kwargs))
    torch.manual_seed(0)
    with torch.no_grad():
        return [v.to(WIDER.get(v.dtype, v.dtype)) for v in tensors(program.graph_module(*inputs))]


def tensors(out):
    return [v.clone() for v in pytree.tree_leaves(out) if isinstance(v, torch.Tensor)]


def dtypes(program):
    """Of the tensors that the graph gives."""
    [output] = [n for n in program.graph.nodes if n.op == "output"]
    noted = [n.meta["val"] for n in pytree.tree_leaves(output.args) if isinstance(n, torch.fx.Node)]
    return [v.dtype for v in noted if isinstance(v, torch.Tensor)]


def is_half(program):
    noted = [v for n in program.graph.nodes for v in pytree.tree_leaves(n.meta.get("val"))]
    return any(isinstance(v, torch.Tensor) and v.dtype in (torch.float16, torch.bfloat16) for v in noted)


def distance(wrong, right, dtype):
    """The largest difference as a part of the largest value; and the same by rows, where it may be larger."""
    if wrong.shape != right.shape:
        return math.inf, math.inf
    if not right.numel() or torch.equal(wrong, right):
        return 0.0, 0.0
    if not right.dtype.is_floating_point and not right.dtype.is_complex:
        return math.inf, math.inf
    finite = right.isfinite()
    if not torch.equal(finite, wrong.isfinite()):
        return math.inf, math.inf
    off = torch.where(finite, wrong - right, 0).abs()
    size = torch.where(finite, right, 0).abs()
    limits = torch.finfo(dtype) if dtype.is_floating_point or dtype.is_complex else torch.finfo(torch.float32)
    scale = size.max().item()
    if not limits.tiny / limits.eps < scale < limits.max:
        return 0.0, 0.0  # in its own type it is zero or infinite
    rows = (off.amax(-1) / size.amax(-1).clamp(min=1e-3 * scale)).max().item() if off.dim() else 0.0
    return off.max().item() / scale, rows


def movement(wrong, right, types):
    """The largest distance of any result; and the largest by rows."""
    both = [distance(w, r, t) for w, r, t in zip(wrong, right, types)]
    return max((a for a, _ in both), default=0.0), max((b for _, b in both), default=0.0)
