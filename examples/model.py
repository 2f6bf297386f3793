# SPDX-License-Identifier: Apache-2.0
"""A small vision transformer, which the other examples rewrite. Exports it:

    python examples/model.py vit.pt2
"""

import sys

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(),
                                 nn.Linear(2 * width, width))

    def forward(self, x):
        h = self.norm(x)
        scores = self.query(h) @ self.key(h).transpose(-2, -1) / 8.0
        x = x + self.out(scores.softmax(-1) @ self.value(h))
        return x + self.mlp(x)


class VisionTransformer(nn.Module):
    def __init__(self, width=128, layers=2, classes=10):
        super().__init__()
        self.patches = nn.Sequential(nn.Conv2d(3, width, 4, stride=4), nn.BatchNorm2d(width))
        self.layers = nn.Sequential(*(Layer(width) for _ in range(layers)))
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        return self.head(self.layers(x).mean(1))


def vision_transformer():
    """As if it had been trained: its batch norm has seen images."""
    torch.manual_seed(0)
    net = VisionTransformer()
    with torch.no_grad():
        net(torch.randn(64, 3, 16, 16))
    return net.eval()


if __name__ == "__main__":
    torch.manual_seed(1)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(vision_transformer(), (torch.randn(2, 3, 16, 16),),
                                  dynamic_shapes={"images": {0: batch}})
    torch.export.save(program, sys.argv[1])
