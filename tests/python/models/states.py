# SPDX-License-Identifier: Apache-2.0
"""Parameters and buffers: shared ones, views, dtypes, and what the model writes."""

import math

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from .convolutions import images
from .kit import Example, model, settle
from .transformers import Attention


class ParallelLinears(nn.Module):
    def __init__(self, size=8, bias=(True, True, True), out=(8, 4, 6), divisor=3.0):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(size, o, bias=b) for o, b in zip(out, bias))
        self.divisor = divisor

    def forward(self, x):
        return self.q(x) / self.divisor, self.k(x), F.relu(self.v(x))


def typed(dtype):
    return Example(ParallelLinears().to(dtype), (torch.randn(4, 8).to(dtype),), dynamic_shapes=({0: Dim("n")},),
                   more=[((torch.randn(7, 8).to(dtype),), {})])


@model(merge=1, bias=3, div=1)
def bf16():
    return typed(torch.bfloat16)


@model(merge=1, bias=3, div=1)
def fp16():
    return typed(torch.float16)


@model(merge=1, bias=3, div=1)
def fp64():
    return typed(torch.float64)


@model(merge=1, bias=1, div=1)
def mixed_biases():
    return Example(ParallelLinears(bias=(False, True, False)), (torch.randn(4, 8),))


class Norm16(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4),
                                 nn.BatchNorm1d(4)).to(dtype)

    def forward(self, x):
        return self.net(x)


@model(conv=1, norm=1, bias=1)
def bf16_norm():
    return Example(settle(Norm16(torch.bfloat16)), (images(2, 8).bfloat16(),))


class Flat(nn.Module):
    """Parameters that are views of one flat parameter, and a transposed (non-contiguous) weight."""

    def __init__(self):
        super().__init__()
        flat = torch.randn(8 * 8 * 2 + 8)
        self.flat = nn.Parameter(flat)
        self.a = nn.Linear(8, 8)
        self.a.weight = nn.Parameter(flat[:64].view(8, 8))
        self.a.bias = nn.Parameter(flat[128:])
        self.b = nn.Linear(8, 8, bias=False)
        self.b.weight = nn.Parameter(flat[64:128].view(8, 8).t())
        self.c = nn.Linear(8, 4)
        self.c.weight = nn.Parameter(torch.randn(8, 4).t())

    def forward(self, x):
        return self.a(x), self.b(x), self.c(x), self.flat.sum()


@model(merge=None, bias=None)  # whether views of a live parameter may be merged is refx's choice
def views():
    return Example(Flat(), (torch.randn(3, 8),))


class OddState(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.nothing = nn.Parameter(torch.zeros(0, 4))
        self.register_buffer("steps", torch.arange(5, dtype=torch.int8))
        self.register_buffer("mask", torch.tensor([True, False, True, True]))
        self.register_buffer("secret", torch.tensor(2.0, dtype=torch.float64), persistent=False)
        self.register_buffer("bytes", torch.tensor([1, 2, 3, 250], dtype=torch.uint8))
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)
        self.constant = torch.tensor([0.5, -0.5, float("inf"), 2.0])

    def forward(self, x):
        y = (self.q(x) + self.k(x)) * self.scale * self.secret.to(x.dtype)
        y = torch.where(self.mask, y, torch.minimum(y, self.constant))
        return torch.cat([y, self.nothing]), self.steps.sum(), self.bytes.to(x.dtype) / 7, y.new_zeros(0, 3)


@model(merge=1, bias=2, div=1)
def odd_state():
    return Example(OddState(), (torch.randn(3, 4),))


class Empty(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 0), nn.Linear(4, 3)

    def forward(self, x):
        return self.a(x), self.b(x)


@model(merge=None, bias=None)
def zero_features():
    return Example(Empty(), (torch.randn(3, 4),))


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4, dtype=torch.complex64), nn.Linear(4, 3, dtype=torch.complex64)
        self.filter = nn.Parameter(torch.randn(4, dtype=torch.complex64))

    def forward(self, x):
        return self.a(x * self.filter).abs(), self.b(x * self.filter) / 3.0


@model(merge=None, bias=None, div=None)
def complex_weights():
    return Example(Complex(), (torch.randn(3, 4, dtype=torch.complex64),))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("average", torch.zeros(8))
        self.layers = ParallelLinears()

    def forward(self, x):
        self.calls += 1
        self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return self.layers(x), self.calls * 2


@model(merge=1, bias=3, div=1)
def counter():
    return Example(Counter(), (torch.randn(4, 8),))


class Cache(nn.Module):
    def __init__(self, size=16):
        super().__init__()
        self.attention = Attention(size, 2)
        self.register_buffer("keys", torch.zeros(1, 8, size))
        self.register_buffer("values", torch.zeros(1, 8, size))

    def forward(self, x, position):
        a = self.attention
        self.keys.index_copy_(1, position, a.k(x))
        self.values[:, position] = a.v(x)
        scores = a.q(x) @ self.keys.transpose(1, 2) / math.sqrt(16.5)
        return a.o(scores.softmax(-1) @ self.values)


@model(merge=1, bias=4, div=1)
def kv_cache():
    return Example(Cache(), (torch.randn(1, 1, 16), torch.tensor([3])), more=[((torch.randn(1, 1, 16), torch.tensor([0])), {})])


class WrittenInput(nn.Module):
    """The input is written between the linears: they do not see the same values."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = x.clone()
        y = self.a(x)
        x.add_(1.0)
        return y, self.b(x)


@model(bias=None)
def written_between():
    return Example(WrittenInput(), (torch.randn(3, 4),))


class MutatesInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears()

    def forward(self, x, seen):
        seen.add_(x.sum())
        return self.layers(x)


@model(merge=1, bias=3, div=1)
def mutated_input():
    return Example(MutatesInput(), (torch.randn(3, 8), torch.zeros(2)))


class Duplicated(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = self.first
        self.p, self.q = nn.Linear(6, 4), nn.Linear(6, 4)
        self.q.bias = self.p.bias

    def forward(self, x):
        x = self.first(x).tanh() + self.second(x.sin())
        return self.p(x), self.q(x)


@model()
def duplicated_module():
    return Example(Duplicated(), (torch.randn(3, 6),))


class Tagged(torch.Tensor):
    """A tensor type of the user's own: torch.export.save pickles it."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class Pickled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears()
        self.register_buffer("offset", torch.randn(8))

    def forward(self, x):
        return self.layers(x + self.offset)


def as_tagged(program):
    # Export would unwrap it; saving looks at the state dict only.
    program.state_dict["offset"] = program.state_dict["offset"].as_subclass(Tagged)
    return program


@model(merge=1, bias=3, div=1, runs=False)
def pickled_weight():
    return Example(Pickled(), (torch.randn(3, 8),), after=as_tagged)


class OddNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.params = nn.ParameterList([nn.Parameter(torch.randn(4)) for _ in range(3)])
        self.named = nn.ParameterDict({"a b": nn.Parameter(torch.randn(4)), "x-y/z": nn.Parameter(torch.randn(4)),
                                       "0": nn.Parameter(torch.randn(4)), "\u00fcber": nn.Parameter(torch.randn(4))})
        self.add_module("\u5c42", ParallelLinears(4, out=(4, 4, 4)))
        self.add_module("weight", nn.Linear(4, 4))
        self.add_module("merged", nn.Linear(4, 4))

    def forward(self, x):
        for p in self.params:
            x = x + p
        for p in self.named.values():
            x = x * p.tanh()
        q, k, v = getattr(self, "\u5c42")(x)
        return self.weight(q + k), self.merged(v)


@model(merge=1, bias=5, div=1)
def odd_names():
    return Example(OddNames(), (torch.randn(3, 4),))
