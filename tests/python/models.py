# SPDX-License-Identifier: Apache-2.0
"""Small models that cover what torch.export can say, each with inputs and what refx should find in it.

`python models.py FOLDER NAME...` exports models to FOLDER/NAME.pt2.
"""

import collections
import dataclasses
import math
import os
import sys
import tempfile
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

MERGE = "merge-linears"
BIAS = "fuse-bias-in-linear"
DIV = "change-true-div-to-mul-by-inverse"
CONV = "fuse-batch-norm-2d-in-conv-2d"
NORM = "fuse-batch-norm-1d-in-linear"
TRANSFORMATIONS = [MERGE, BIAS, DIV, CONV, NORM]  # whose sites are counted here
TIDYING = ["remove-no-ops", "fold-constants", "merge-equal-nodes"]


@dataclasses.dataclass
class Example:
    module: nn.Module
    args: tuple
    kwargs: dict = dataclasses.field(default_factory=dict)
    dynamic_shapes: Any = None
    more: list = dataclasses.field(default_factory=list)  # further (args, kwargs), of other sizes
    extra_files: dict | None = None
    preserve: tuple = ()
    after: Callable | None = None  # what happens to the exported program before it is saved
    train: bool = False


@dataclasses.dataclass
class Entry:
    name: str
    build: Callable[[], Example]
    sites: dict  # transformation -> number of steps when it is applied alone
    runs: bool  # whether it can be run from its file alone, without Python
    decompose: bool  # whether torch can run_decompositions of it, in a second or two
    smooth: bool  # whether its results hang on no choice (argmax, topk, a hard mask) and no random number
    random: bool

    def example(self) -> Example:
        torch.manual_seed(zlib.crc32(self.name.encode()))
        example = self.build()
        if not example.train:
            example.module.eval()
        return example


MODELS: dict[str, Entry] = {}


def model(runs=True, decompose=True, smooth=True, random=False, **sites):
    """Registers a model. Transformations that are not named have no site in it."""
    names = dict(merge=MERGE, bias=BIAS, div=DIV, conv=CONV, norm=NORM)

    def register(build):
        counts = {names[key]: count for key, count in sites.items()}
        MODELS[build.__name__] = Entry(build.__name__, build, counts, runs, decompose, smooth and not random, random)
        return build

    return register


def settle(module):
    """Batch norms as they are after training: statistics and affine parameters that matter."""
    for m in module.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            if m.running_mean is not None:
                m.running_mean.normal_(0, 0.5)
                m.running_var.uniform_(0.2, 3)
            if m.affine:
                with torch.no_grad():
                    m.weight.uniform_(0.5, 1.5)
                    m.bias.normal_(0, 0.3)
    return module


def ids(*shape, below=50):
    return torch.randint(0, below, shape)


# ---- transformers -----------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, size, heads, bias=True):
        super().__init__()
        self.heads, self.head = heads, size // heads
        self.q = nn.Linear(size, size, bias=bias)
        self.k = nn.Linear(size, size, bias=bias)
        self.v = nn.Linear(size, size, bias=bias)
        self.o = nn.Linear(size, size, bias=bias)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, self.head).transpose(1, 2)

    def forward(self, x, mask=None, context=None, scale=True):
        c = x if context is None else context
        q, k, v = self.split(self.q(x)), self.split(self.k(c)), self.split(self.v(c))
        scores = q @ k.transpose(-1, -2)
        if scale:
            scores = scores / math.sqrt(self.head)
        if mask is not None:
            scores = scores + mask
        out = scores.softmax(-1) @ v
        return self.o(out.transpose(1, 2).reshape(x.size(0), x.size(1), self.heads * self.head))


class EncoderLayer(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.attention = Attention(size, heads)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.up, self.down = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        return self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Bert(nn.Module):
    def __init__(self, size=32, layers=2, vocabulary=50, length=64):
        super().__init__()
        self.words = nn.Embedding(vocabulary, size, padding_idx=0)
        self.positions = nn.Embedding(length, size)
        self.register_buffer("position_ids", torch.arange(length).unsqueeze(0), persistent=False)
        self.norm = nn.LayerNorm(size, eps=1e-12)
        self.layers = nn.ModuleList(EncoderLayer(size, 4) for _ in range(layers))
        self.pooler = nn.Linear(size, size)
        self.classifier = nn.Linear(size, 3)

    def mask(self, given, dtype):
        return (1.0 - given[:, None, None, :].to(dtype)) * -10000.0

    def forward(self, input_ids, attention_mask):
        x = self.words(input_ids) + self.positions(self.position_ids[:, : input_ids.size(1)])
        x = self.norm(x)
        mask = self.mask(attention_mask, x.dtype)
        for layer in self.layers:
            x = layer(x, mask)
        return {"hidden": x, "logits": self.classifier(torch.tanh(self.pooler(x[:, 0])))}


def bert_inputs(batch, length):
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, length // 2 :] = 0
    return (ids(batch, length), mask)


@model(merge=2, bias=14, div=2, decompose=False)
def bert():
    batch, length = Dim("batch", max=64), Dim("length", min=2, max=64)
    dims = {0: batch, 1: length}
    return Example(Bert(), bert_inputs(3, 7), dynamic_shapes=(dims, dims),
                   more=[(bert_inputs(2, 11), {}), (bert_inputs(5, 3), {})],
                   extra_files={"notes.txt": "kept\n", "tokens/vocabulary.txt": "a\nb\u00e9\n"})


@model(merge=None, bias=None, div=1)  # linears are addmm there
def bert_decomposed():
    e = bert()
    e.module = Bert(layers=1)
    e.dynamic_shapes = ({0: Dim("batch")}, {0: Dim("batch")})
    e.more, e.extra_files = [(bert_inputs(2, 7), {})], None
    e.after = lambda program: program.run_decompositions()
    return e


class HubAttention(Attention):
    """As transformers does it: in one call, or by hand with a mask that is added, or by hand with a filled one."""

    def __init__(self, size, heads, how):
        super().__init__(size, heads)
        self.how = how

    def forward(self, x, mask):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        if self.how == "sdpa":
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        elif self.how == "added":
            out = (q @ k.transpose(-1, -2) / math.sqrt(self.head) + mask).softmax(-1) @ v
        else:
            scores = (q / math.sqrt(self.head)) @ k.transpose(-1, -2)
            hidden = (mask == 0).view(mask.size(0), 1, 1, mask.size(1)).expand_as(scores)
            out = scores.masked_fill(hidden, torch.tensor(torch.finfo(scores.dtype).min)).softmax(-1) @ v
        return self.o(out.transpose(1, 2).reshape(x.size(0), x.size(1), self.heads * self.head))


class HubBert(Bert):
    """The masks of transformers 4: the one for SDPA subtracts from a lifted constant and makes a bool of the difference."""

    def __init__(self, how, layers=2):
        super().__init__(layers=layers)
        self.how = how
        for layer in self.layers:
            layer.attention = HubAttention(32, 4, how)

    def mask(self, given, dtype):
        if self.how == "filled":
            return given
        lowest = torch.finfo(dtype).min
        if self.how == "added":
            return (1.0 - given[:, None, None, :].to(dtype)) * lowest
        expanded = given[:, None, None, :].expand(given.size(0), 1, given.size(1), given.size(1)).to(dtype)
        inverted = torch.tensor(1.0, dtype=dtype) - expanded
        return inverted.masked_fill(inverted.to(torch.bool), lowest)


def hub_bert(how, dtype=torch.float32, layers=1):
    e = bert()
    e.module = HubBert(how, layers).to(dtype)
    e.extra_files = None
    return e


@model(merge=2, bias=14, decompose=False)
def bert_sdpa():
    return hub_bert("sdpa", layers=2)


@model(merge=2, bias=14, div=2, decompose=False)
def bert_eager():
    return hub_bert("added", layers=2)


@model(merge=1, bias=8, div=1, decompose=False)
def distilbert():
    return hub_bert("filled")


@model(merge=1, bias=8, decompose=False)
def bert_sdpa_fp16():
    return hub_bert("sdpa", torch.float16)


@model(merge=1, bias=8, decompose=False)
def bert_sdpa_bf16():
    return hub_bert("sdpa", torch.bfloat16)


@model(merge=1, bias=8, div=1, decompose=False)
def bert_eager_fp16():
    return hub_bert("added", torch.float16)


@model(merge=1, bias=8, div=1, decompose=False)
def bert_eager_bf16():
    return hub_bert("added", torch.bfloat16)


class Gpt(nn.Module):
    def __init__(self, size=32, layers=2, vocabulary=50):
        super().__init__()
        self.words = nn.Embedding(vocabulary, size)
        self.positions = nn.Parameter(torch.randn(1, 32, size) * 0.1)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"ln1": nn.LayerNorm(size), "attn": Attention(size, 4), "ln2": nn.LayerNorm(size),
                           "mlp": nn.Sequential(nn.Linear(size, 64), nn.GELU(approximate="tanh"), nn.Linear(64, size))})
            for _ in range(layers))
        self.head = nn.Linear(size, vocabulary, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("causal", torch.full((32, 32), float("-inf")).triu(1))

    def forward(self, tokens):
        n = tokens.size(1)
        x = self.words(tokens) + self.positions[:, :n]
        for block in self.blocks:
            x = x + block["attn"](block["ln1"](x), self.causal[:n, :n])
            x = x + block["mlp"](block["ln2"](x))
        return self.head(x)


@model(merge=2, bias=12, div=2, decompose=False)
def gpt():
    dims = {0: Dim("batch", max=16), 1: Dim("length", min=2, max=31)}
    return Example(Gpt(), (ids(2, 9),), dynamic_shapes=(dims,), more=[((ids(4, 31),), {}), ((ids(1, 2),), {})])


class Rotary(nn.Module):
    """A decoder whose positions are angles: tables of cosines and sines, and a mask, that depend on no input. The
    frequencies are used for a time, too, which is an input."""

    def __init__(self, size=32, heads=4, vocabulary=50):
        super().__init__()
        self.heads, self.head = heads, size // heads
        self.words = nn.Embedding(vocabulary, size)
        self.q, self.k, self.v = (nn.Linear(size, size, bias=False) for _ in range(3))
        self.o = nn.Linear(size, vocabulary, bias=False)
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, self.head, 2) / self.head), persistent=False)

    def rotated(self, x, cos, sin):
        x = x.view(x.size(0), x.size(1), self.heads, self.head).transpose(1, 2)
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    def forward(self, tokens, time):
        n = tokens.size(1)
        positions = torch.arange(n, dtype=self.inv_freq.dtype)[None, None, :]
        angles = (self.inv_freq[None, :, None] @ positions).transpose(1, 2)
        cos, sin = (f(torch.cat([angles, angles], -1)).unsqueeze(1) for f in (torch.cos, torch.sin))
        mask = torch.full((n, n), torch.finfo(torch.float32).min, dtype=self.inv_freq.dtype).triu(1)
        x = self.words(tokens) + torch.sin(time[:, None] * self.inv_freq).repeat(1, 2 * self.heads)[:, None]
        v = self.v(x).view(x.size(0), n, self.heads, self.head).transpose(1, 2)
        out = F.scaled_dot_product_attention(self.rotated(self.q(x), cos, sin), self.rotated(self.k(x), cos, sin), v, mask)
        return self.o(out.transpose(1, 2).flatten(2))


@model(merge=1)
def rotary():
    return Example(Rotary(), (ids(2, 24), torch.rand(2)), more=[((ids(2, 24), torch.rand(2)), {})])


class T5(nn.Module):
    def __init__(self, size=32, heads=4):
        super().__init__()
        self.words = nn.Embedding(50, size)
        self.bias = nn.Embedding(16, heads)
        self.encoder = Attention(size, heads, bias=False)
        self.decoder = Attention(size, heads, bias=False)
        self.cross = Attention(size, heads, bias=False)
        self.wi0, self.wi1 = nn.Linear(size, 48, bias=False), nn.Linear(size, 48, bias=False)
        self.wo = nn.Linear(48, size, bias=False)
        self.scale = nn.Parameter(torch.rand(size) + 0.5)

    def norm(self, x):
        return self.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    def position_bias(self, n):
        i = torch.arange(n)
        return self.bias((i[None, :] - i[:, None]).clamp(-8, 7) + 8).permute(2, 0, 1).unsqueeze(0)

    def forward(self, source, target):
        e = self.words(source)
        e = e + self.encoder(self.norm(e), self.position_bias(e.size(1)), scale=False)
        h = self.norm(e)
        e = e + self.wo(F.gelu(self.wi0(h)) * self.wi1(h))
        d = self.words(target)
        d = d + self.decoder(self.norm(d), self.position_bias(d.size(1)), scale=False)
        d = d + self.cross(self.norm(d), context=e, scale=False)
        return F.linear(self.norm(d), self.words.weight), e


@model(merge=4, decompose=False)  # two self-attentions, K/V of the cross-attention, wi0/wi1
def t5():
    b, s, t = Dim("b", max=8), Dim("s", min=2, max=32), Dim("t", min=2, max=32)
    return Example(T5(), (ids(2, 6),), {"target": ids(2, 4)},
                   dynamic_shapes={"source": {0: b, 1: s}, "target": {0: b, 1: t}},
                   more=[((ids(3, 4),), {"target": ids(3, 9)})])


class Albert(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(12, 16)
        self.layer = EncoderLayer(16, 2)
        self.out = nn.Linear(16, 2)

    def forward(self, x):
        x = self.embed(x)
        for _ in range(3):
            x = self.layer(x)
        return self.out(x)


@model(bias=2, div=3, decompose=False)  # the shared layer's linears are used thrice; its division is one per use
def albert():
    return Example(Albert(), (torch.randn(2, 5, 12),), dynamic_shapes=({0: Dim("b"), 1: Dim("n", min=2)},),
                   more=[((torch.randn(3, 8, 12),), {})])


class Vit(nn.Module):
    def __init__(self, size=32):
        super().__init__()
        self.patch = nn.Conv2d(3, size, 4, stride=4)
        self.cls = nn.Parameter(torch.randn(1, 1, size))
        self.position = nn.Parameter(torch.randn(1, 17, size) * 0.1)
        self.layers = nn.Sequential(EncoderLayer(size, 4), EncoderLayer(size, 4))
        self.head = nn.Linear(size, 5)

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], 1) + self.position
        return self.head(self.layers(x)[:, 0])


@model(merge=2, bias=13, div=2)
def vit():
    return Example(Vit(), (torch.randn(2, 3, 16, 16),), dynamic_shapes=({0: Dim("batch")},),
                   more=[((torch.randn(5, 3, 16, 16),), {})])


@model(bias=4)  # the packed projection is one linear already
def torch_encoder_layer():
    return Example(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (torch.randn(2, 5, 16),))


# ---- convolutions and batch norm --------------------------------------------------------------


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


# ---- state: sharing, views, dtypes, mutation --------------------------------------------------


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


# ---- inputs and outputs -----------------------------------------------------------------------

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


# ---- choices, and random numbers --------------------------------------------------------------


class Experts(nn.Module):
    """Each row goes to the two experts that a gate likes best."""

    def __init__(self, size=16, experts=4):
        super().__init__()
        self.gate = nn.Linear(size, experts, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(size, 24), nn.GELU(), nn.Linear(24, size)) for _ in range(experts))

    def forward(self, x):
        likes = self.gate(x).softmax(-1)
        best, chosen = likes.topk(2, -1)
        shares = torch.zeros_like(likes).scatter(-1, chosen, best / best.sum(-1, keepdim=True))
        parts = [expert(x) * share.unsqueeze(-1) for expert, share in zip(self.experts, shares.unbind(-1))]
        return x + sum(parts), chosen


@model(merge=1, bias=8, smooth=False)
def experts():
    return Example(Experts(), (torch.randn(6, 16),), dynamic_shapes=({0: Dim("n")},), more=[((torch.randn(9, 16),), {})])


class Labels(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))

    def forward(self, x):
        return self.net(x).argmax(-1)


@model(bias=2, smooth=False)
def labels():
    return Example(Labels(), (torch.randn(12, 8),))


class Greedy(nn.Module):
    """Writes on, always with the likeliest token."""

    def __init__(self, size=16):
        super().__init__()
        self.words, self.step, self.head = nn.Embedding(20, size), nn.Linear(size, size), nn.Linear(size, 20)

    def forward(self, token):
        state, tokens = torch.zeros(token.size(0), self.words.embedding_dim, dtype=self.words.weight.dtype), []
        for _ in range(4):
            state = torch.tanh(self.step(state) + self.words(token))
            token = self.head(state).argmax(-1)
            tokens.append(token)
        return torch.stack(tokens, 1), state


@model(smooth=False)  # its linears are used four times
def greedy():
    return Example(Greedy(), (ids(3, below=20),))


class HardMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        open = self.a(x) > 0
        return self.b(x) * open, torch.where(open, x, 3.0)


@model(merge=1, bias=2, smooth=False)
def hard_mask():
    return Example(HardMask(), (torch.randn(5, 8),))


class Sampled(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))

    def forward(self, x):
        return torch.multinomial((4 * self.net(x)).softmax(-1), 2)


@model(bias=2, decompose=False, random=True)
def sampled():
    return Example(Sampled(), (torch.randn(20, 8),))


class Dropped(nn.Module):
    """Drops out as in training."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.b(F.dropout(F.relu(self.a(x)), 0.5, training=True))


@model(bias=2, decompose=False, random=True)
def dropped():
    return Example(Dropped(), (torch.randn(4, 8),))


# ---- control flow -----------------------------------------------------------------------------


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


# ---- symbolic sizes ---------------------------------------------------------------------------


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


# ---- rewrites that would be wrong, or nearly so -----------------------------------------------


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


# ---- exporting --------------------------------------------------------------------------------


def export(name, path):
    example = MODELS[name].example()
    program = torch.export.export(example.module, example.args, example.kwargs, dynamic_shapes=example.dynamic_shapes,
                                  preserve_module_call_signature=example.preserve)
    if example.after:
        program = example.after(program)
    # The archive's root folder has the name of the file: it must have that name from the start.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        part = os.path.join(folder, os.path.basename(path))
        torch.export.save(program, part, extra_files=example.extra_files)
        os.replace(part, path)


if __name__ == "__main__":
    # The module must be importable by its own name: pickles refer to it.
    import models

    torch.set_num_threads(1)
    for model_name in sys.argv[2:]:
        models.export(model_name, os.path.join(sys.argv[1], model_name + ".pt2"))
