# SPDX-License-Identifier: Apache-2.0
"""Writes files of torch.export.save into a folder, for export_test.cpp."""

import pathlib
import sys

import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = torch.nn.Linear(width, width)
        self.second = torch.nn.Linear(width, 3, bias=False)
        self.register_buffer("kept", torch.ones(3))
        self.register_buffer("computed", torch.full((3,), 2.0), persistent=False)
        self.second.weight.data = self.first.weight.data[:3]  # shares its storage

    def forward(self, x):
        return self.second(self.first(x)) + self.kept * self.computed + torch.tensor([1.0, 2.0, 3.0])


folder = pathlib.Path(sys.argv[1])
small = torch.export.export(Model(8), (torch.randn(2, 8),))
torch.export.save(small, folder / "small.pt2")
torch.export.save(small, folder / "with extra.pt2", extra_files={"note.txt": "a note", "empty.txt": ""})
batch = torch.export.Dim("batch", min=2, max=64)
large = torch.export.export(Model(600), (torch.randn(2, 600),), dynamic_shapes=({0: batch},))
torch.export.save(large, folder / "large.pt2")
