# SPDX-License-Identifier: Apache-2.0
"""Snapshots of GraphModules, to the last bit and object, and comparison of outputs."""

import copy
import io
import pickle

import torch
from torch import nn
from torch.fx import GraphModule, Node, map_arg, symbolic_trace

from refx import _core

LIBRARY = _core.transformations()  # before tests register their own


class Parallel(nn.Module):
    """Three linears with one input: a site of merge-linears."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(4, 4) for _ in range(3))
        self.scale = 1.0

    def forward(self, x):
        return self.q(x) + self.k(x) * self.v(x)


class Divided(Parallel):
    """A site of change-true-div-to-mul-by-inverse, too, and a relu for passes of one's own."""

    def forward(self, x):
        return torch.relu(self.q(x) + self.k(x) + self.v(x)) / 4.0


def by_pickle(gm):
    return pickle.loads(pickle.dumps(gm))


def by_torch_save(gm):
    file = io.BytesIO()
    torch.save(gm, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def text(value):
    """An argument with its types: 7 is not 7.0."""
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, dict):
        return {key: text(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [text(item) for item in value])
    if isinstance(value, slice):
        return ("slice", [text(part) for part in (value.start, value.stop, value.step)])
    return (type(value).__name__, repr(value))


def nodes(gm, meta=True, objects=True):
    return [
        (id(n) if objects else None, n.name, n.op, n.target, text(n.args), text(n.kwargs), n.type,
         {k: id(v) for k, v in n.meta.items()} if meta else None, sorted(u.name for u in n.users))
        for n in gm.graph.nodes
    ]


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_state_dict_hooks")


def modules(module, objects=True):
    return [
        (path, id(m) if objects and path else None, type(m) if path else None, m.training,
         [list(getattr(m, h).values()) for h in HOOKS], list(m._parameters), list(m._buffers),
         list(m._modules), sorted(m._non_persistent_buffers_set),
         {k: v for k, v in vars(m).items() if isinstance(v, (int, float, str, tuple))})
        for path, m in module.named_modules(remove_duplicate=False)
    ]


def tensors(module, objects=True):
    found = [*module.named_parameters(remove_duplicate=False),
             *module.named_buffers(remove_duplicate=False)]
    storages = {}
    return [
        (name, id(t) if objects else None, type(t), t.dtype, t.device, t.shape, t.stride(),
         t.storage_offset(), t.requires_grad, t.is_leaf, t.detach().clone(),
         storages.setdefault(t.untyped_storage()._cdata, len(storages)),
         t.untyped_storage().nbytes())
        for name, t in found
    ]


class Snapshot:
    """Everything of a module that a user can see; equal only if nothing differs."""

    def __init__(self, module, objects=True, meta=True):
        self.code = module.code if isinstance(module, GraphModule) else None
        self.modules = modules(module, objects)
        self.tensors = tensors(module, objects)
        self.keys = list(module.state_dict())
        self.nodes = nodes(module, meta, objects) if isinstance(module, GraphModule) else None
        self.attributes = sorted(k for k in vars(module) if not k.startswith("_graph"))
        self.meta = sorted(getattr(module, "meta", {}))

    def assert_equals(self, other):
        assert self.keys == other.keys
        assert self.modules == other.modules
        assert self.nodes == other.nodes
        assert self.code == other.code
        assert self.attributes == other.attributes
        assert self.meta == other.meta
        assert len(self.tensors) == len(other.tensors)
        for a, b in zip(self.tensors, other.tensors):
            bits_a, bits_b = a[10], b[10]
            assert a[:10] + a[11:] == b[:10] + b[11:]
            assert bits(bits_a) == bits(bits_b), f"{a[0]} has other bits"


def bits(tensor):
    return tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def trace(model):
    """A GraphModule of the model; it shares the model's leaf modules."""
    return symbolic_trace(model)


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    return [t for item in value for t in flat(item)]


def assert_close_to_double(gm, reference, inputs, slack=50):
    """The outputs of gm are as near to the fp64 run as those of the reference are, within a factor."""
    with torch.no_grad():
        mine, theirs = flat(gm(*inputs)), flat(reference(*inputs))
        wide = [x.double() if x.is_floating_point() else x for x in inputs]
        exact = flat(copy.deepcopy(reference).double()(*wide))
    assert len(mine) == len(theirs) == len(exact)
    for m, t, e in zip(mine, theirs, exact):
        assert m.shape == t.shape and m.dtype == t.dtype and m.stride() == t.stride()
        scale = e.abs().max().clamp_min(1e-6)
        eps = torch.finfo(m.dtype).eps if m.is_floating_point() else 0
        error = (m.double() - e).abs().max() / scale
        assert error <= slack * eps, f"relative error {error:.2e}"


def graph_nodes(gm, op, target=None):
    return [n for n in gm.graph.nodes if n.op == op and (target is None or n.target == target)]


__all__ = [
    "LIBRARY", "Divided", "Parallel", "Snapshot", "assert_close_to_double", "bits", "flat", "graph_nodes", "map_arg", "trace",
]
