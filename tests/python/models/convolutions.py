# SPDX-License-Identifier: Apache-2.0
"""Convolutions, and batch norms behind them."""


import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from .kit import Example, model, settle


class Residual(nn.Module):
    def __init__(self, i, o, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.short = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o)) if i != o else None

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.short is None else self.short(x)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.layers = nn.Sequential(Residual(8, 8), Residual(8, 16, 2))
        self.fc = nn.Linear(16, 4)

    def forward(self, x):
        x = self.layers(self.stem(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def images(batch, size=16, channels=3):
    return torch.randn(batch, channels, size, size)


@model(conv=6, bias=1)
def resnet():
    return Example(settle(ResNet()), (images(2),), dynamic_shapes=({0: Dim("batch")},), more=[((images(4),), {})])


@model(conv=6, bias=1)
def resnet_channels_last():
    module = settle(ResNet()).to(memory_format=torch.channels_last)
    return Example(module, (images(2).contiguous(memory_format=torch.channels_last),))


@model(conv=None, bias=None)
def resnet_decomposed():
    e = resnet()
    e.after = lambda program: program.run_decompositions()
    return e


class Mobile(nn.Module):
    def __init__(self):
        super().__init__()

        def conv(i, o, k=1, **kw):
            return [nn.Conv2d(i, o, k, **kw), nn.BatchNorm2d(o), nn.ReLU6()]

        self.net = nn.Sequential(
            *conv(3, 8, 3, stride=2, padding=1, bias=False),
            *conv(8, 8, 3, padding=1, groups=8),
            *conv(8, 16, 1, bias=False),
            *conv(16, 16, 3, padding=2, dilation=2, groups=4),
            *conv(16, 16, 3, padding=1, padding_mode="reflect"),
            *conv(16, 16, 3, padding="same"),
            nn.Conv2d(16, 4, 1), nn.BatchNorm2d(4, affine=False))

    def forward(self, x):
        return self.net(x)


@model(conv=7)
def mobilenet():
    return Example(settle(Mobile()), (images(2, 8),), dynamic_shapes=({0: Dim("batch")},), more=[((images(3, 8),), {})])


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.down2 = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.up_norm = nn.BatchNorm2d(8)
        self.grouped = nn.ConvTranspose2d(16, 8, 3, padding=1, groups=2, bias=False)
        self.grouped_norm = nn.BatchNorm2d(8)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(a)
        c = torch.cat([self.up_norm(self.up(b)), a], 1)
        return self.out(F.relu(self.grouped_norm(self.grouped(c))))


@model(conv=4)
def unet():
    return Example(settle(UNet()), (images(2, 8),), dynamic_shapes=({0: Dim("batch")},), more=[((images(1, 8),), {})])


class LinearNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.an = nn.Linear(6, 10), nn.BatchNorm1d(10)
        self.bn, self.b = nn.BatchNorm1d(10), nn.Linear(10, 8, bias=False)
        self.c, self.cn = nn.Linear(8, 8, bias=False), nn.BatchNorm1d(8, affine=False)
        self.kept, self.kept_norm = nn.Linear(8, 8), nn.BatchNorm1d(8)

    def forward(self, x):
        x = F.relu(self.an(self.a(x)))
        x = F.relu(self.b(self.bn(x)))
        x = F.relu(self.cn(self.c(x)))
        y = self.kept(x)
        return self.kept_norm(y), y  # returned as well: not to be folded


@model(norm=3, bias=2)
def linear_norm():
    return Example(settle(LinearNorm()), (torch.randn(5, 6),), dynamic_shapes=({0: Dim("batch")},),
                   more=[((torch.randn(3, 6),), {})])


@model(norm=None, bias=None)
def linear_norm_decomposed():
    e = linear_norm()
    e.after = lambda program: program.run_decompositions()
    return e


class NormRefused(nn.Module):
    """A batch norm wherever folding would be wrong."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.batch = nn.BatchNorm2d(4, track_running_stats=False)
        self.conv2 = nn.Conv2d(4, 4, 1)
        self.sequence, self.sequence_norm = nn.Linear(8, 8), nn.BatchNorm1d(4)

    def forward(self, x):
        x = self.norm(F.relu(self.conv(x)))
        x = self.batch(self.conv2(x))
        return self.sequence_norm(self.sequence(x.mean(2)))  # (N, C, L): channels are not last


@model(bias=1)
def norm_refused():
    return Example(settle(NormRefused()), (images(2, 8),))


class NormsOfOneConv(nn.Module):
    """Two calls of one convolution, each with a batch norm of its own."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Conv2d(3, 4, 3, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, x):
        return self.norm1(self.shared(x)) + self.norm2(self.shared(-x))


@model(conv=2)
def norms_of_one_conv():
    return Example(settle(NormsOfOneConv()), (images(2, 8),))


@model(bias=1)
def train_mode():
    e = resnet()
    e.train = True
    return e
