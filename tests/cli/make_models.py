# SPDX-License-Identifier: Apache-2.0
"""Writes the .pt2 files that the tests of the program read, unless they are there and newer.

usage: make_models.py FOLDER PROGRAM
"""

import subprocess
import sys
import tempfile
from pathlib import Path

FILES = ("small.pt2", "other.pt2", "plain.pt2", "branch.pt2", "unknown.pt2", "results.pt2", "foreign.pt2")


def up_to_date(folder):
    script = Path(__file__).stat().st_mtime
    return all((folder / f).exists() and (folder / f).stat().st_mtime > script for f in FILES)


def models():
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.query = nn.Linear(width, width)
            self.key = nn.Linear(width, width)
            self.value = nn.Linear(width, width)

        def forward(self, x):
            scores = self.query(x) @ self.key(x).transpose(-2, -1) / 4.0
            return scores.softmax(-1) @ self.value(x)

    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = Attention(16)
            self.hidden = nn.Linear(16, 8)
            self.norm = nn.BatchNorm1d(8)
            self.left = nn.Linear(8, 4)
            self.right = nn.Linear(8, 4)
            self.right.weight = self.left.weight

        def forward(self, x):
            h = self.norm(self.hidden(self.attention(x).mean(1)))
            return self.left(h) + self.right(h.relu())

    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.left = nn.Linear(4, 4)
            self.right = nn.Linear(4, 4)

        def forward(self, x):
            y = torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))
            return self.left(y) + self.right(y)

    class Results(nn.Module):
        """Calls that return nothing, one tensor, several, a list of them; subgraphs, too."""

        def forward(self, x):
            with torch.no_grad():
                cos, sin = x.cos(), x.sin()
            with torch.no_grad():
                tan = x.tan()
            first, second = x.split(2)
            return x.to(torch.float64), x.max(-1)[0], first, cos + sin, tan

    def export(module, *inputs, **options):
        return torch.export.export(module.eval(), inputs, **options)

    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=1, max=64)
    small = Small()
    x = torch.randn(2, 3, 16)
    yield "small.pt2", export(small, x, dynamic_shapes={"x": {0: batch}})
    with torch.no_grad():
        small.hidden.bias[3] += 0.5
    yield "other.pt2", export(small, x, dynamic_shapes={"x": {0: batch}})
    yield "plain.pt2", export(nn.ReLU(), torch.randn(2))
    yield "branch.pt2", export(Branch(), torch.randn(2, 4))
    yield "results.pt2", export(Results(), torch.randn(4, 4))


def change_graph(path, to, old, new):
    """Copies an archive as another program might: every record kept, one word of the program another."""
    import torch

    reader = torch._C.PyTorchFileReader(str(path))
    writer = torch._C.PyTorchFileWriter(str(to))
    for name in reader.get_all_records():
        if name in (".data/version", ".data/serialization_id", "byteorder"):
            continue
        data = reader.get_record(name)
        if name == "models/model.json":
            data = data.replace(old, new)
        writer.write_record(name, data, len(data))
    writer.write_record("byteorder", b"little", 6)
    writer.write_end_of_file()


def main(folder, refx):
    folder.mkdir(parents=True, exist_ok=True)
    if up_to_date(folder):
        return
    import torch

    for name, program in models():
        torch.export.save(program, folder / name)
    with tempfile.TemporaryDirectory() as scratch:
        fast = Path(scratch) / "fast.pt2"
        command = [refx, "apply", folder / "small.pt2", "merge-linears", "-q", "-o", fast]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        change_graph(fast, folder / "foreign.pt2", b'"softmax"', b'"soft"')
    # An operator that torch may have one day.
    change_graph(folder / "branch.pt2", folder / "unknown.pt2", b"higher_order.cond", b"higher_order.gate")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
