# SPDX-License-Identifier: Apache-2.0
"""Subgraphs, loops and assertions."""


import torch
from torch import nn

from .kit import Example, model
from .states import ParallelLinears


class Cond(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears(6, out=(6, 6, 6))
        self.branch = nn.Linear(6, 6)

    def forward(self, x):
        q, k, v = self.layers(x)
        y = torch.cond(q.sum() > 0, lambda a: self.branch(a) / 3.0, lambda a: a.cos() / 7.0, (k,))
        return y + v


@model(merge=1, bias=None, div=None, smooth=False)
def cond():
    return Example(Cond(), (torch.randn(3, 6),), more=[((torch.randn(3, 6) + 5,), {}), ((torch.randn(3, 6) - 5,), {})])


class While(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears(6, out=(6, 6, 6))

    def forward(self, x, n):
        q, k, v = self.layers(x)
        i, y = torch._higher_order_ops.while_loop(
            lambda i, y: i < n, lambda i, y: (i + 1, y * 0.5 + 1.0), (torch.zeros((), dtype=torch.int64), q + k))
        return y + v, i


@model(merge=1, bias=3, div=1)
def while_loop():
    return Example(While(), (torch.randn(3, 6), torch.tensor(4)), more=[((torch.randn(3, 6), torch.tensor(0)), {})])


class Asserted(nn.Module):
    """Conversions, each behind an assertion, which returns nothing; as in models of transformers 5."""

    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears(6, out=(6, 6, 6))
        self.register_buffer("frequencies", torch.rand(3), persistent=False)

    def forward(self, x, positions):
        x = x.to(x.dtype).to(x.dtype)  # no-ops: the second assertion reads the first
        table = torch.arange(6).to(x.dtype) * 2.0  # folded
        angles = self.frequencies[None, :, None].to(x.dtype).expand(1, -1, 1) @ positions[:, None, :].to(x.dtype)
        y = x.relu().to(torch.float64) + x.relu().to(torch.float64)  # equal nodes
        q, k, v = self.layers(y.to(x.dtype))
        torch._assert_async((x < 100).all())
        return q + k, v, table.to(torch.float64) + y, angles.cos()


@model(merge=1, bias=3, div=1)
def asserted():
    return Example(Asserted(), (torch.randn(3, 6), torch.arange(4)[None]))


class WithoutGradients(nn.Module):
    """A subgraph with two results, as rotary embeddings under torch.no_grad(), and one with one."""

    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears(6, out=(6, 6, 6))

    @torch.no_grad()
    def embedding(self, x, y):
        x = x.to(y.dtype) + y
        return x.cos(), x.sin()

    def forward(self, x):
        x = x.to(x.dtype)
        q, k, v = self.layers(x)
        cos, sin = self.embedding(x, x.relu())
        with torch.no_grad():
            scale = torch.exp(x.relu())
        return q * cos + k * sin + v * scale


@model(merge=1, bias=3, div=1, runs=False)  # asserts dtypes in a subgraph, which the tests cannot widen
def without_gradients():
    return Example(WithoutGradients(), (torch.randn(3, 6),))


class UnusedResults(nn.Module):
    """Calls of which some results are not used, and whose arguments change."""

    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears(6, out=(6, 6, 6))
        self.norm = nn.GroupNorm(2, 6)

    def forward(self, x):
        x = x.to(x.dtype)
        q, k, v = self.layers(x)
        values = x.max(dim=-1)[0]
        part = x.split(2, dim=1)[1]
        normed = torch.ops.aten.native_group_norm(x[:, :, None], self.norm.weight, self.norm.bias, 3, 6, 1, 2, 1e-5)[0]
        return q + k, v, values, part, normed


@model(merge=1, bias=3, div=1)
def unused_results():
    return Example(UnusedResults(), (torch.randn(3, 6),))
