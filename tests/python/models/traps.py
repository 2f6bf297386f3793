# SPDX-License-Identifier: Apache-2.0
"""Models in which a rewrite would be wrong, or nearly so."""


import torch
from torch import nn
from torch.nn import functional as F

from .convolutions import images
from .kit import Example, model, settle


class FlatView(nn.Module):
    """`view(-1)` needs contiguous results, which slices of a merged linear are not."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.a(x).view(-1), self.b(x).view(2, -1)


@model(merge=None, bias=2)
def flat_view():
    return Example(FlatView(), (torch.randn(4, 4),))


class WrittenThroughView(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = x.clone()
        y = self.a(x)
        x.view(-1)[:5].zero_()
        z = self.b(x)
        x.t()[0] = 2.0
        return y, z, self.c(x)


@model(bias=None)
def written_through_view():
    return Example(WrittenThroughView(), (torch.randn(3, 4),))


class SharedWeights(nn.Module):
    """Weights that something else reads as well, or that the model writes."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.c, self.d = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("w", torch.randn(4, 4))
        self.register_buffer("v", torch.randn(4, 4))

    def forward(self, x, y):
        self.w.mul_(0.5)
        z = F.linear(y, self.w) + F.linear(y, self.v)
        d = torch.cond(x.sum() > 0, lambda t: F.linear(t, self.c.weight), lambda t: t - 1, (x,))
        return self.a(x), self.b(x), self.b.weight.sum(), z, d, self.c(x + 1), self.d(x + 1)


@model(merge=None, bias=None, runs=False)
def shared_weights():
    return Example(SharedWeights(), (torch.randn(3, 4), torch.randn(3, 4)))


class NormTraps(nn.Module):
    """Batch norms over the wrong dimension, with other readers, after computed weights."""

    def __init__(self):
        super().__init__()
        self.norm3, self.linear3 = nn.BatchNorm1d(6), nn.Linear(6, 6)  # (N, 6, 6): channels are not last
        self.norm_used, self.linear_used = nn.BatchNorm1d(6), nn.Linear(6, 6)
        self.conv1, self.norm1 = nn.Conv1d(6, 6, 3, padding=1), nn.BatchNorm1d(6)
        self.conv, self.norm = nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2)
        self.conv_used, self.norm2 = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)

    def forward(self, x):
        x = self.linear3(self.norm3(x))
        x = self.norm1(self.conv1(x))
        y = self.norm_used(x.mean(1))
        y = self.linear_used(y) + y
        z = F.conv2d(x.unsqueeze(1), self.conv.weight * 2.0, padding=1)
        z = self.norm(z)
        u = self.conv_used(z)
        return y, self.norm2(u) + u


@model(bias=2)
def norm_traps():
    return Example(settle(NormTraps()), (torch.randn(3, 6, 6),))


class ExtremeNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, eps=1e-5)
        self.linear, self.norm1 = nn.Linear(4, 4), nn.BatchNorm1d(4, eps=0.0)
        self.zero, self.norm0 = nn.Linear(4, 4), nn.BatchNorm1d(4, eps=0.0)
        settle(self)
        self.norm.running_var.copy_(torch.tensor([0.0, 5.6e-45, 1e-12, 1e6]))
        with torch.no_grad():
            self.norm.weight.copy_(torch.tensor([0.0, -1.0, 1e-3, 50.0]))
        self.norm0.running_var[1] = 0.0  # 1/0: not to be folded

    def forward(self, x):
        x = self.norm(self.conv(x)).mean((2, 3))
        return self.norm1(self.linear(x)), self.norm0(self.zero(x))


@model(merge=1, conv=1, norm=1, bias=2, smooth=False)  # 1/0: inf or nan, as torch's kernel for those strides has it
def extreme_norm():
    return Example(ExtremeNorm(), (images(2, 6, 2),))


class Divisions(nn.Module):
    def __init__(self):
        super().__init__()
        self.learned = nn.Parameter(torch.tensor(3.0))
        self.constant = torch.tensor(7.0)

    def forward(self, x, h, n):
        return (3.0 / x, x / self.learned, x / self.constant, x / n, h / 3.0, h / 1e5, h / 3e-6, h / 7e4, h.float() / 3,
                x / 2, x / -0.1, x.div(10, rounding_mode="trunc"), n / 3, torch.true_divide(x, 5.0), x.view(-1) / x.numel())


@model(div=None)
def divisions():
    return Example(Divisions(), (torch.randn(3, 4), torch.randn(3, 4).half(), torch.tensor(5)))


class Vector(nn.Module):
    """Inputs of one dimension; inputs, parameters and results that are returned as they are."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 5)
        self.bilinear, self.unused = nn.Parameter(torch.randn(2)), nn.Linear(3, 3)

    def forward(self, x, unused):
        y = self.a(x)
        return y, self.b(x), x, self.bilinear, y


@model(merge=1, bias=2)
def vector():
    return Example(Vector(), (torch.randn(4), torch.randn(2)))
