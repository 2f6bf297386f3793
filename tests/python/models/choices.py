# SPDX-License-Identifier: Apache-2.0
"""Models whose results depend on a choice or on random numbers."""


import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from .kit import Example, ids, model


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
