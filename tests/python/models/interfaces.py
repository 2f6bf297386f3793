# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs: nested, optional, several, written in place."""

import collections

import torch
from torch import nn
from torch.export import Dim

from .convolutions import images
from .kit import Example, model, settle
from .states import ParallelLinears

Point = collections.namedtuple("Point", "x y")
torch.utils._pytree._register_namedtuple(Point, serialized_type_name="models.Point")


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears(4, out=(4, 4, 4))

    def forward(self, batch, pair, *, flag=None):
        x = batch["x"] + pair[0] + batch["more"][1]
        q, k, v = self.layers(x)
        return {"q": q, "rest": [k, (v, Point(q + k, pair[1]))]}, None, 7


def nested_inputs(n):
    batch = {"x": torch.randn(n, 4), "more": [torch.randn(n, 4), torch.randn(n, 4)]}
    return (batch, (torch.randn(4), torch.randn(1))), {"flag": None}


@model(merge=1, bias=3, div=1)
def nested():
    args, kwargs = nested_inputs(3)
    n = Dim("n")
    shapes = {"batch": {"x": {0: n}, "more": [{0: n}, {0: n}]}, "pair": (None, None), "flag": None}
    return Example(Nested(), args, kwargs, dynamic_shapes=shapes, more=[nested_inputs(6)])


class TakesPoint(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears(4, out=(4, 4, 4))

    def forward(self, point):
        return self.layers(point.x * point.y)


@model(merge=1, bias=3, div=1, runs=False)  # its pickled sample inputs name a Python class
def named_tuple_input():
    return Example(TakesPoint(), (Point(torch.randn(3, 4), torch.randn(4)),))


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears(4, out=(4, 4, 4))

    def forward(self, x, times, factor, flag, mode, nothing=None):
        q, k, v = self.layers(x)
        y = q * times + k * factor
        if flag:
            y = y + 1
        if mode == "sum" and nothing is None:
            y = y + v
        return y, times, 2.5, True, None


@model(merge=1, bias=3, div=1)
def plain_inputs():
    return Example(Plain(), (torch.randn(3, 4), 3, 0.5, True, "sum"), {"nothing": None})


class Numbers(nn.Module):
    def forward(self, x):
        x = torch.clamp(x, min=float("-inf"), max=float("inf"))
        y = x.masked_fill(x > 1, float("-inf")).masked_fill(x < -1, float("nan"))
        z = torch.full_like(x, 1e-45) + x / 49 + x / 7.0
        floored = torch.div(x, 3, rounding_mode="floor")
        return y, z, x / 1e-310, x / 3e38, x / 1e45, x / float("inf"), torch.div(x, 3), floored, x.long() / 4, x // 2


@model(div=None)
def numbers():
    return Example(Numbers(), (torch.randn(4, 5) * 3,))


class MultiOutput(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears(6, out=(6, 6, 6))

    def forward(self, x):
        q, k, v = self.layers(x)
        a, b, c = q.split(2, dim=-1)
        values, indices = k.topk(2, dim=-1)
        best, where = v.max(dim=-1)
        r = x.unbind(0)
        s = torch.ops.aten.std_mean.correction(x, [1], correction=1.0)
        return a + b + c, values, indices, best, where, r[0] + r[2], s[0], x.chunk(4, 1)[2], torch.sort(q)[0]


@model(merge=1, bias=3, div=1, smooth=False)
def multi_output():
    return Example(MultiOutput(), (torch.randn(3, 6),))


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.conv, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)

    def forward(self, x, image):
        y = self.a(x).relu_().mul_(2.0)
        z = self.b(x).div_(3.0)
        z[:, 0] = 1.0
        z[:, 1:3].add_(y[:, 1:3])
        c = self.conv(image)
        c.clamp_(min=0)  # between the two: not to be folded
        return y + z, self.norm(c)


@model(merge=None, bias=2, div=None)
def in_place():
    return Example(settle(InPlace()), (torch.randn(3, 4), images(2, 6, 1)))


@torch.library.custom_op("refx_tests::twice", mutates_args=())
def twice(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * 2 * by


@twice.register_fake
def _(x, by):
    return torch.empty_like(x)


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = ParallelLinears()

    def forward(self, x):
        q, k, v = self.layers(torch.ops.refx_tests.twice(x, 1.5))
        return torch.ops.refx_tests.twice(q, 1.0), k, v


@model(merge=1, bias=3, div=1, runs=False)
def custom_operator():
    return Example(Custom(), (torch.randn(3, 8),))
