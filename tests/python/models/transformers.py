# SPDX-License-Identifier: Apache-2.0
"""Transformers: one small model for each way to write attention."""

import math

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from .kit import Example, ids, model


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
