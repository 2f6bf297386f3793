# SPDX-License-Identifier: Apache-2.0
"""Fold the batch norms of an exported program, save it with its history, and go back."""

import pathlib
import tempfile

import torch
from torch import nn

import refx

net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)).eval()
x = torch.randn(1, 3, 8, 8)

with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "fast.pt2"
    model = refx.export(net, (x,))
    model.apply("fuse-batch-norm-2d-in-conv-2d")
    model.save(path)  # torch.export.load reads it too

    model = refx.load(path)
    print(model)
    verification = model.verify()
    print(verification)
    assert verification
    torch.testing.assert_close(model(x), net(x))
    model.reverse()
    assert torch.equal(model.state_dict()["0.weight"], net[0].weight)
print("as before, bit for bit")
