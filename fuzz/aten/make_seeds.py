# SPDX-License-Identifier: Apache-2.0
"""Writes calls of ATen operators with arguments that fit, from torch's own samples, for refx_fuzz_aten to distort.

usage: make_seeds.py FILE [MODEL.pt2...]

One call is a line: the operator, then its arguments in the order of the schema. Values are written as
N, B 0, I 3, F 0.5, C 1 2, S text, L length values..., T dtype dims sizes... strides... count integers...
The models add calls of their operators with the shapes that they record.
"""

import contextlib
import json
import sys
import types
import unittest
import warnings
import zipfile

import torch

# torch's tests import it, but the samples do not use it
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

SEEDS_OF_AN_OPERATOR = 6  # the first of torch's samples differ most
MOST_ELEMENTS = 4096
DTYPES = {str(dtype): number for number, dtype in enumerate(
    (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
     torch.complex32, torch.complex64, torch.complex128, torch.bool))} | {"torch.bfloat16": 15}
# the numbers of torch.export, which differ from those of c10
EXPORTED = [None, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15]


class CannotWrite(Exception):
    pass


def tensor(dtype, sizes, strides, values=()):
    words = ["T", dtype, len(sizes), *sizes, *strides, len(values), *values]
    return " ".join(map(str, words))


def written(value):
    if value is None or isinstance(value, torch.Generator):
        return "N"
    if isinstance(value, bool):
        return f"B {int(value)}"
    if isinstance(value, (int, torch.SymInt)):
        return f"I {int(value)}"
    if isinstance(value, float):
        return f"F {value!r}"
    if isinstance(value, complex):
        return f"C {value.real!r} {value.imag!r}"
    if isinstance(value, str):
        return f"S {''.join(value.split()) or '-'}"
    if isinstance(value, torch.dtype):
        return f"I {DTYPES.get(str(value), 6)}"
    if isinstance(value, (torch.layout, torch.memory_format)):
        return "I 0"
    if isinstance(value, torch.device):
        return f"S {value}"
    if isinstance(value, (list, tuple)):
        return " ".join([f"L {len(value)}", *map(written, value)])
    if isinstance(value, torch.Tensor):
        plain = value.layout == torch.strided and not value.is_quantized and str(value.dtype) in DTYPES
        if not plain or value.numel() > MOST_ELEMENTS or value.device.type != "cpu":
            raise CannotWrite
        integers = not value.is_floating_point() and not value.is_complex() and value.numel() <= 24
        return tensor(DTYPES[str(value.dtype)], value.shape, value.stride(),
                      [int(v) for v in value.reshape(-1).tolist()] if integers else ())
    raise CannotWrite


class Seeds:
    def __init__(self):
        self.of = {}

    def add(self, name, overload, values):
        """The values in the order of the schema, written or as they are."""
        with contextlib.suppress(CannotWrite):
            line = " ".join(v if isinstance(v, str) else written(v[0]) for v in values)
            of = self.of.setdefault(f"{name}.{overload}" if overload else name, {})
            if len(of) < SEEDS_OF_AN_OPERATOR:
                of.setdefault(line)

    def add_call(self, schema, args, kwargs):
        values = []
        for i, argument in enumerate(schema.arguments):
            if argument.is_out:
                return
            if i < len(args):
                values.append((args[i],))
            elif argument.name in kwargs:
                values.append((kwargs[argument.name],))
            elif argument.has_default_value():
                values.append((argument.default_value,))
            else:
                return
        self.add(schema.name, schema.overload_name, values)


class Recorder(TorchDispatchMode):
    def __init__(self, seeds):
        super().__init__()
        self.seeds = seeds

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "aten":
            self.seeds.add_call(func._schema, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def add_composite(seeds, name, args, kwargs):
    """An operator that torch takes apart before a dispatch mode sees it: the first overload that takes the sample."""
    packet = getattr(torch.ops.aten, name, None)
    for overload in packet.overloads() if packet else ():
        func = getattr(packet, overload)
        with contextlib.suppress(Exception):
            func(*args, **kwargs)
            seeds.add_call(func._schema, args, kwargs)


def add_samples(seeds):
    for op in op_db:
        for dtype in (torch.float32, torch.int64):
            if dtype not in op.supported_dtypes("cpu"):
                continue
            with contextlib.suppress(Exception):
                for sample, _ in zip(op.sample_inputs("cpu", dtype), range(12)):
                    args, kwargs = (sample.input, *sample.args), sample.kwargs
                    aliases = [alias.name for alias in op.aliases]
                    for name in {op.aten_name, *(n.replace(".", "_") for n in (op.name, *aliases)),
                                 *(n.split(".")[-1] for n in (op.name, *aliases))}:
                        for form in (name, name + "_"):
                            add_composite(seeds, form, args, kwargs)
                    with contextlib.suppress(Exception), Recorder(seeds):
                        op.op(*args, **kwargs)
                        if op.inplace_variant:
                            op.inplace_variant(sample.input.clone(), *sample.args, **kwargs)


def module_calls():
    """Layers and functions that torch has no samples of, or takes apart before they can be recorded."""
    nn, f, x = torch.nn, torch.nn.functional, torch.randn
    steps = x(2, 3, 4)
    for recurrent in (nn.LSTM, nn.GRU, nn.RNN):
        yield recurrent(4, 6, batch_first=True), steps
        yield recurrent(4, 5, num_layers=2, bidirectional=True, bias=False), steps
    yield nn.LSTM(4, 6, proj_size=3), steps
    for mode in ("sum", "mean", "max"):
        yield nn.EmbeddingBag(5, 3, mode=mode), torch.tensor([0, 1, 2, 4]), torch.tensor([0, 2])
        yield nn.EmbeddingBag(5, 3, mode=mode, padding_idx=0), torch.tensor([[0, 1], [2, 4]])
    for norm, shape in ((nn.InstanceNorm1d, (2, 3, 4)), (nn.InstanceNorm2d, (2, 3, 4, 4)),
                        (nn.InstanceNorm3d, (2, 3, 2, 2, 2))):
        yield norm(3, affine=True), x(shape)
        yield norm(3, track_running_stats=True), x(shape)
    yield nn.MultiheadAttention(8, 2), *[x(3, 2, 8)] * 3
    yield nn.TransformerEncoderLayer(8, 2, 16), x(3, 2, 8)
    for dropout in (nn.Dropout, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout):
        yield dropout().train(), x(2, 3, 4, 4)
    image, indices = x(2, 3, 6, 6), torch.tensor([1, 0])
    functions = (
        (torch.cdist, x(3, 4), x(5, 4)), (f.adaptive_max_pool1d, x(2, 3, 8), 2), (f.pdist, x(4, 3)),
        (f.grid_sample, image, x(2, 4, 4, 2)), (f.affine_grid, x(2, 2, 3), [2, 3, 4, 4]),
        (f.cross_entropy, x(2, 4), indices), (f.nll_loss, x(2, 4), indices),
        (f.cosine_embedding_loss, x(2, 4), x(2, 4), indices), (f.pad, image, [1, 1], "circular"),
        (torch.repeat_interleave, x(2, 3), torch.tensor([1, 2]), 0), (torch.floor_divide, x(2), 2),
        (torch.concat, [x(2), x(2)]), (torch.concatenate, [x(2), x(2)]), (torch.clip, x(3), 0.0, 1.0),
        (torch.div, torch.arange(4), 2), (torch.divide, x(3), x(3)), (torch.absolute, x(3)), (torch.fix, x(3)),
        (torch.arccos, x(3)), (torch.arcsin, x(3)), (torch.arctan, x(3)), (torch.arctan2, x(3), x(3)),
        (torch.greater, x(3), x(3)), (torch.greater_equal, x(3), x(3)), (torch.less, x(3), x(3)),
        (torch.less_equal, x(3), x(3)), (torch.not_equal, x(3), x(3)), (torch.subtract, x(3), x(3)),
        (torch.negative, x(3)), (torch.swapaxes, x(2, 3), 0, 1), (torch.swapdims, x(2, 3), 0, 1),
        (torch.moveaxis, x(2, 3), 0, 1), (torch.vstack, [x(3), x(3)]), (torch.row_stack, [x(3), x(3)]),
        (torch.hann_window, 8), (torch.hamming_window, 8), (torch.inverse, x(3, 3)), (torch.imag, x(3) + 1j),
        (torch.broadcast_tensors, x(3), x(2, 3)), (torch.cartesian_prod, x(3), x(2)), (torch.bucketize, 2, x(4)),
        (torch.bernoulli, x(3).sigmoid()), (f.interpolate, image, None, 2.0, "bicubic"),
        (f.interpolate, image, None, 2.0, "nearest-exact"), (torch.special.logit, x(3)),
        (torch.special.expit, x(3)), (torch.special.erf, x(3)), (torch.linalg.norm, x(3, 3)),
        (torch.norm, x(3)), (torch.batch_norm_stats, image, 1e-5),
    )
    for function, *args in functions:
        yield Calls(function, args), torch.zeros(1)


class Calls(torch.nn.Module):
    def __init__(self, function, args):
        super().__init__()
        self.function, self.args = function, args

    def forward(self, x):
        return x, self.function(*self.args)


def add_exported(seeds):
    for module, *args in module_calls():
        with contextlib.suppress(Exception):
            program = torch.export.export(module if module.training else module.eval(), tuple(args), strict=False)
            for node in program.graph.nodes:
                if node.op == "call_function" and getattr(node.target, "namespace", "") == "aten":
                    concrete = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda n: like(n.meta["val"]))
                    seeds.add_call(node.target._schema, *concrete)


def like(value):
    """Replaces a tensor without data."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_floating_point() or value.is_complex():
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    return torch.zeros(value.shape, dtype=value.dtype)


def from_graph(argument, tensors):
    (kind, value), = argument.items()
    if kind == "as_tensor":
        meta = tensors[value["name"]]
        dims = [d["as_int"] if "as_int" in d else d["as_expr"]["hint"]["as_int"] for d in meta["sizes"]]
        strides = [d["as_int"] if "as_int" in d else d["as_expr"]["hint"]["as_int"] for d in meta["strides"]]
        dims = [min(d, 8) for d in dims]  # a tensor of a real model may be large
        contiguous = [1] * len(dims)
        for i in reversed(range(len(dims) - 1)):
            contiguous[i] = contiguous[i + 1] * max(1, dims[i + 1])
        return tensor(EXPORTED[meta["dtype"]], dims, contiguous if 0 not in strides else [0] * len(dims))
    if kind in ("as_tensors", "as_ints", "as_floats", "as_bools"):
        items = [from_graph({kind[:-1]: v}, tensors) for v in value]
        return " ".join([f"L {len(items)}", *items])
    if kind in ("as_none", "as_int", "as_float", "as_bool", "as_string"):
        return written(None if kind == "as_none" else value)
    if kind == "as_scalar_type":
        return f"I {EXPORTED[value]}"
    if kind == "as_device":
        return "S cpu"
    raise CannotWrite


def add_model(seeds, path):
    archive = zipfile.ZipFile(path)
    name, = (n for n in archive.namelist() if n.endswith("/models/model.json") and "/refx/" not in n)
    graph = json.loads(archive.read(name))["graph_module"]["graph"]
    for node in graph["nodes"]:
        words = node["target"].split(".")
        if words[:3] != ["torch", "ops", "aten"]:
            continue
        overload = "" if words[4] == "default" else words[4]
        try:
            schema = torch._C._get_schema(f"aten::{words[3]}", overload)
            given = {i["name"]: from_graph(i["arg"], graph["tensor_values"]) for i in node["inputs"]}
            values = [given.get(a.name) or (a.default_value,) for a in schema.arguments]
        except (CannotWrite, KeyError, IndexError, TypeError, RuntimeError):
            continue
        seeds.add(schema.name, overload, values)


def main():
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    seeds = Seeds()
    for path in sys.argv[2:]:
        add_model(seeds, path)
    add_exported(seeds)
    add_samples(seeds)
    with open(sys.argv[1], "w") as file:
        for op in sorted(seeds.of):
            file.writelines(f"{op} {line}\n" for line in seeds.of[op])
    print(f"{sum(map(len, seeds.of.values()))} calls of {len(seeds.of)} operators")


if __name__ == "__main__":
    main()
