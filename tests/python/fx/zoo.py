# SPDX-License-Identifier: Apache-2.0
"""Hand-written models of the usual kinds, small, with inputs."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=16, heads=2, kv_heads=None, bias=True, key_bias=None):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads or heads
        self.size = width // heads
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, self.size * self.kv_heads,
                             bias=bias if key_bias is None else key_bias)
        self.value = nn.Linear(width, self.size * self.kv_heads, bias=bias)
        self.out = nn.Linear(width, width)

    def split(self, x, heads):
        return x.view(x.size(0), x.size(1), heads, self.size).transpose(1, 2)

    def forward(self, x, mask):
        q = self.split(self.query(x), self.heads)
        k = self.split(self.key(x), self.kv_heads).repeat_interleave(self.heads // self.kv_heads, 1)
        v = self.split(self.value(x), self.kv_heads).repeat_interleave(self.heads // self.kv_heads, 1)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.size) + mask
        context = torch.matmul(F.softmax(scores, dim=-1), v).transpose(1, 2)
        return self.out(context.reshape(x.size(0), x.size(1), -1))


class Block(nn.Module):
    def __init__(self, width=16, **kwargs):
        super().__init__()
        self.attention = Attention(width, **kwargs)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, mask):
        x = x + self.dropout(self.attention(self.norm1(x), mask))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self, vocabulary=30, width=16, layers=2, **kwargs):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList([Block(width, **kwargs) for _ in range(layers)])
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens, mask):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, mask)
        return {"hidden": x, "pooled": torch.tanh(self.pooler(x[:, 0]))}


class SwiGLU(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Decoder(nn.Module):
    """Grouped keys, gated feed-forward, tied output."""

    def __init__(self, vocabulary=30, width=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.attention = Attention(width, heads=4, kv_heads=2, bias=False)
        self.ff = SwiGLU(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens, mask):
        x = self.embedding(tokens)
        x = x + self.attention(x, mask)
        x = x + self.ff(x)
        return self.head(x)


class ViT(nn.Module):
    def __init__(self, width=16, classes=5):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, 5, width))
        self.block = Block(width, key_bias=False)
        self.register_buffer("scale", torch.tensor(3.0))
        self.head = nn.Linear(width, classes)

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.size(0), -1, -1), x], dim=1) + self.position
        return self.head(self.block(x, 0.0)[:, 0]) / self.scale


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=True),
                                      nn.BatchNorm2d(outputs, affine=False))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.layers = nn.Sequential(Residual(8, 8), Residual(8, 16, 2))
        self.fc = nn.Linear(16, 4)

    def forward(self, x):
        return self.fc(self.layers(self.stem(x)).mean((2, 3)))


class MobileNet(nn.Module):
    """Depthwise, dilated, transposed, with padding modes."""

    def __init__(self):
        super().__init__()
        def pair(conv):
            return nn.Sequential(conv, nn.BatchNorm2d(conv.out_channels), nn.ReLU6())
        self.features = nn.Sequential(
            pair(nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect")),
            pair(nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)),
            pair(nn.Conv2d(8, 12, 1)),
            pair(nn.Conv2d(12, 12, 3, padding=2, dilation=2, groups=3)),
            pair(nn.ConvTranspose2d(12, 6, 2, stride=2, groups=2)))

    def forward(self, x):
        return self.features(x)


class MLP(nn.Module):
    """BatchNorm1d after a linear, and before one."""

    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.first, self.norm1 = nn.Linear(12, 8), nn.BatchNorm1d(8)
        self.norm2, self.second = nn.BatchNorm1d(8), nn.Linear(8, 6, bias=False)
        self.last, self.norm3 = nn.Linear(6, 4, bias=False), nn.BatchNorm1d(4, affine=False)

    def forward(self, x):
        x = F.relu(self.norm1(self.first(self.flatten(x))))
        x = self.second(self.norm2(x))
        return self.norm3(self.last(torch.tanh(x)))


class Functional(nn.Module):
    """The same layers as functions, with parameters of the module."""

    def __init__(self):
        super().__init__()
        self.w1, self.b1 = nn.Parameter(torch.randn(8, 6)), nn.Parameter(torch.randn(8))
        self.w2 = nn.Parameter(torch.randn(8, 6))
        self.kernel = nn.Parameter(torch.randn(4, 1, 3, 3))
        self.register_buffer("mean", torch.randn(4))
        self.register_buffer("var", torch.rand(4) + 0.5)
        self.register_buffer("divisor", torch.tensor(7.0), persistent=False)

    def forward(self, x, image):
        y = F.linear(x, self.w1, self.b1) + F.linear(x, self.w2)
        y = torch.div(y, 3) + y.div(2.5) + y / self.divisor
        z = F.batch_norm(F.conv2d(image, self.kernel), self.mean, self.var)
        return y, z


def randomize(model):
    """Statistics and affine parameters of batch norms that are not the trivial ones."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.2, 3)
            if module.affine:
                nn.init.uniform_(module.weight, -2, 2)
                nn.init.normal_(module.bias)
    return model


def tokens(batch=2, length=5):
    return torch.randint(0, 30, (batch, length))


MODELS = {
    "encoder": (Encoder, lambda: (tokens(), torch.zeros(2, 1, 1, 5))),
    "decoder": (Decoder, lambda: (tokens(), torch.full((5, 5), float("-inf")).triu(1))),
    "vit": (ViT, lambda: (torch.randn(2, 3, 8, 8),)),
    "resnet": (ResNet, lambda: (torch.randn(2, 3, 8, 8),)),
    "mobilenet": (MobileNet, lambda: (torch.randn(2, 3, 8, 8),)),
    "mlp": (MLP, lambda: (torch.randn(3, 3, 4),)),
    "functional": (Functional, lambda: (torch.randn(3, 6), torch.randn(2, 1, 5, 5))),
}


def make(name, seed=0):
    """A model in evaluation mode, and inputs."""
    torch.manual_seed(seed)
    model, inputs = MODELS[name]
    return randomize(model()).eval(), inputs()
