# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes, preserved signatures, and models with several kinds of sites."""


import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from .convolutions import images
from .kit import Example, model, settle
from .states import ParallelLinears
from .transformers import Attention


class Symbols(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears(6, out=(6, 6, 6))

    def forward(self, x, y):
        b, n, d = x.shape
        flat = x.reshape(b * n, d)
        q, k, v = self.layers(flat)
        doubled = torch.cat([q.view(b, n, d), k.view(b, n, d)], 1)
        return doubled, v / n, y[:, 1:n], torch.arange(b * n + 1), b * n, x.new_zeros(b, (n + 3) // 2)


@model(merge=1, bias=3, div=1, decompose=False)  # v / n is not a constant; torch cannot decompose it
def symbols():
    b, n = Dim("b", max=16), Dim("n", min=3, max=32)
    return Example(Symbols(), (torch.randn(2, 4, 6), torch.randn(2, 8)), dynamic_shapes=({0: b, 1: n}, {0: b, 1: 2 * n}),
                   more=[((torch.randn(3, 5, 6), torch.randn(3, 10)), {}), ((torch.randn(1, 3, 6), torch.randn(1, 6)), {})])


class Unbacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears(6, out=(6, 6, 6))

    def forward(self, x, n):
        rows = torch.nonzero(x[:, 0] > -10).squeeze(1)
        k = n.item()
        torch._check(k >= 1)
        torch._check(k <= x.size(0))
        q, kk, v = self.layers(x.index_select(0, rows))
        return q, kk + v, x.narrow(0, 0, k), torch.zeros(k, 2)


@model(merge=1, bias=3, div=1)
def unbacked():
    return Example(Unbacked(), (torch.randn(5, 6), torch.tensor(2)), more=[((torch.randn(5, 6), torch.tensor(4)), {})])


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears(6, out=(6, 6, 6))

    def forward(self, pair, *, scale):
        q, k, v = self.layers(pair["a"])
        return {"sum": (q + k) * scale, "v": v}


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.last = Inner(), nn.Linear(6, 2)

    def forward(self, x):
        y = self.inner({"a": x}, scale=0.5)
        return self.last(y["sum"]) + self.last(y["v"])


@model(merge=1, bias=3, div=1)
def preserved_signatures():
    return Example(Outer(), (torch.randn(3, 6),), preserve=("inner", "inner.layers", "inner.layers.q"))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 2)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return self.out(y), h, c


@model(bias=1)
def lstm():
    return Example(Lstm(), (torch.randn(2, 3, 4),))


class Everything(nn.Module):
    """Sites of every transformation, some of which build on others."""

    def __init__(self):
        super().__init__()
        self.conv, self.conv_norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.flat, self.flat_norm = nn.Linear(16, 12), nn.BatchNorm1d(12)
        self.q, self.k, self.v = nn.Linear(12, 6), nn.Linear(12, 6), nn.Linear(12, 6, bias=False)

    def forward(self, image):
        x = F.relu(self.conv_norm(self.conv(image))).flatten(1)
        x = F.relu(self.flat_norm(self.flat(x)))
        return self.q(x) / 3.0 + self.k(x), self.v(x)


@model(merge=1, bias=3, div=1, conv=1, norm=1)
def everything():
    return Example(settle(Everything()), (images(2, 4, 1),), dynamic_shapes=({0: Dim("batch")},), more=[((images(3, 4, 1),), {})])


@model(merge=1, bias=4, div=1)
def wide_attention():
    return Example(Attention(256, 4), (torch.randn(1, 5, 256),))


@model()
def nothing_to_do():
    return Example(nn.Sequential(nn.ReLU(), nn.Flatten()), (torch.randn(2, 3, 4),))


class Frozen(nn.Module):
    """Linears of which one does not require gradients."""

    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears()
        self.layers.k.requires_grad_(False)

    def forward(self, x):
        return self.layers(x)


@model(merge=None, bias=3, div=1)
def frozen_part():
    return Example(Frozen(), (torch.randn(3, 8),))
