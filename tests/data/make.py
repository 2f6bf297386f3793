"""Writes files as today's refx writes them, into a folder of their own.

usage: make.py FOLDER PROGRAM

`pt2/` are files of torch.export, as they were and rewritten; `fx/` are GraphModules with a history.
Files that are kept here are not made again: they are what an earlier refx wrote.
"""

import copy
import math
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path

import torch
from torch import nn

import refx
from refx.fx import (
    ChangeTrueDivToMulByInverse,
    FoldConstants,
    FuseBatchNorm1dInLinear,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeEqualNodes,
    MergeLinears,
    RemoveNoOps,
    compose,
    log,
    reverse,
)

MERGE = "merge-linears"
BIAS = "fuse-bias-in-linear"
DIV = "change-true-div-to-mul-by-inverse"
CONV = "fuse-batch-norm-2d-in-conv-2d"
NORM = "fuse-batch-norm-1d-in-linear"
TIDY = ("remove-no-ops", "fold-constants", "merge-equal-nodes")


# ---- models -----------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-2, -1) / math.sqrt(self.query.out_features)
        return scores.softmax(-1) @ self.value(x)


class Encoder(nn.Module):
    """Merged linears that a bias is fused into, and a norm folded into a layer that is fused too."""

    def __init__(self, width=6):
        super().__init__()
        self.attention = Attention(width)
        self.hidden = nn.Linear(3 * width, 5)
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        x = x + self.attention(x)
        return self.norm(self.hidden(x.flatten(1))).relu()


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        self.depth = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.depth_norm = nn.BatchNorm2d(4, affine=False)
        self.up = nn.ConvTranspose2d(4, 6, 2, stride=2, groups=2)
        self.up_norm = nn.BatchNorm2d(6)
        self.register_buffer("scale", torch.tensor(3.0))
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.depth_norm(self.depth(x))
        x = self.up_norm(self.up(x)) / self.scale
        return self.head(x.mean((2, 3)))


class Tied(nn.Module):
    """A weight of two names, in linears that merge with others and in one that stays alone."""

    def __init__(self, width=5):
        super().__init__()
        self.embedding = nn.Embedding(7, width)
        self.left, self.right = nn.Linear(width, 4), nn.Linear(width, 4)
        self.again = nn.Linear(width, 4)
        self.again.weight = self.left.weight
        self.head = nn.Linear(4, 7)
        self.up = nn.Linear(4, width, bias=False)
        self.out = nn.Linear(width, 7)
        self.out.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        y = self.left(x) + self.right(x) * self.again(x.relu())
        return self.head(y) / 7 + self.out(self.up(y))


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(width), requires_grad=False)

    def forward(self, x):
        return x * (torch.sigmoid(self.table) + 1)


class Untidy(nn.Module):
    """What is handed on, computed twice, or the same every time."""

    def __init__(self, width=6):
        super().__init__()
        self.hidden = nn.Linear(width, width)
        self.drop = nn.Dropout()
        self.scale = Scale(width)

    def forward(self, x):
        y = self.scale(self.drop(self.hidden(x)))
        return y.relu() * y.exp() + y.relu()


def settled(module):
    """Batch norms as they are after training, in a module that is evaluated."""
    for m in module.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.running_mean.normal_(0, 0.5)
            m.running_var.uniform_(0.2, 3)
            if m.affine:
                nn.init.uniform_(m.weight, 0.5, 1.5)
                nn.init.normal_(m.bias, 0, 0.3)
    return module.eval()


def text(steps):
    return "".join(f"{step}\n" for step in steps)


def models():
    """Name, module, inputs, dynamic shapes."""
    torch.manual_seed(20)
    batch = {0: torch.export.Dim("batch", min=1, max=64)}
    yield "encoder", settled(Encoder()), (torch.randn(2, 3, 6),), {"x": batch}
    yield "convolutions", settled(Convolutions()), (torch.randn(2, 2, 6, 6),), None
    yield "tied", settled(Tied()), (torch.randint(0, 7, (2, 3)),), None
    yield "bfloat16", settled(Encoder()).bfloat16(), (torch.randn(2, 3, 6).bfloat16(),), None
    yield "untidy", settled(Untidy()), (torch.randn(2, 6),), {"x": batch}


# ---- .pt2 -------------------------------------------------------------------------------------


def shorter(program):
    """Stack traces as they are, but only of this file, and without its folder."""
    for node in program.graph.nodes:
        frames = re.findall(r'  File "[^"]*/make.py", (line .*\n.*\n)', node.meta.get("stack_trace", ""))
        if frames:
            node.meta["stack_trace"] = "".join(f'  File "make.py", {frame}' for frame in frames)
        else:
            node.meta.pop("stack_trace", None)
    return program


class Files:
    def __init__(self, folder, program):
        self.folder, self.program = folder, program

    def path(self, name):
        return self.folder / f"{name}.pt2"

    def write(self, command, source, target, *args):
        command = [self.program, command, self.path(source), *args, "-q", "-o", self.path(target)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def make(self):
        for name, module, inputs, shapes in models():
            program = torch.export.export(module, inputs, dynamic_shapes=shapes)
            torch.export.save(shorter(program), self.path(name))

        # Steps that build on each other: merged, then fused; folded, then fused.
        self.write("apply", "encoder", "encoder.all", MERGE, DIV, NORM, BIAS)
        # A step taken out of the middle, on which another was built.
        self.write("reverse", "encoder.all", "encoder.middle", "1")
        # In two sittings and another order: a chosen site first.
        self.write("apply", "encoder", "encoder.site", BIAS, "--site", "*.query")
        self.write("apply", "encoder.site", "encoder.sittings", DIV, MERGE, BIAS, NORM)
        self.path("encoder.site").unlink()
        self.write("apply", "convolutions", "convolutions.all", CONV, DIV, BIAS)
        self.write("reverse", "convolutions.all", "convolutions.middle", "2")
        self.write("apply", "tied", "tied.all", MERGE, DIV, BIAS)
        self.write("apply", "bfloat16", "bfloat16.all", MERGE, NORM, BIAS, DIV)
        self.write("reverse", "bfloat16.all", "bfloat16.middle", MERGE)
        self.write("apply", "untidy", "untidy.all", *TIDY, BIAS)
        self.write("reverse", "untidy.all", "untidy.middle", "2")
        self.train()
        for path in self.folder.glob("*.*.pt2"):
            path.with_suffix(".log").write_text(text(refx.load(path).log()))

    def train(self):
        """New values in a merged weight: saved, and saved again after undo, which keeps them."""
        model = refx.load(self.path("encoder"))
        model.apply(MERGE)
        with torch.no_grad():
            model.state_dict()["attention.query-key-value-merged.weight"].mul_(2)
        model.save(self.path("encoder-trained.merged"))
        model.reverse()
        model.save(self.path("encoder-trained"))


# ---- GraphModules -----------------------------------------------------------------------------


def save_graph_modules(folder):
    everything = compose(MergeLinears(), ChangeTrueDivToMulByInverse(), FuseBatchNorm2dInConv2d(),
                         FuseBatchNorm1dInLinear(), FuseBiasInLinear())

    tidy = compose(RemoveNoOps(), FoldConstants(), MergeEqualNodes(), FuseBiasInLinear())

    def keep(name, gm):
        torch.save(gm, folder / f"{name}.pt")
        (folder / f"{name}.log").write_text(text(log(gm)))

    def keep_original(name, gm, inputs):
        torch.save({"code": gm.code, "state": gm.state_dict(), "inputs": inputs}, folder / f"{name}.state.pt")
        torch.save(gm, folder / f"{name}.pt")

    for name, module, inputs, _ in models():
        gm = torch.fx.symbolic_trace(module)
        keep_original(name, copy.deepcopy(gm), inputs)
        (tidy if name == "untidy" else everything)(gm)
        keep(f"{name}.all", gm)
        reverse(gm, "1")
        keep(f"{name}.middle", gm)
        if name == "encoder":
            (folder / f"{name}.middle.pickle").write_bytes(pickle.dumps(gm))

    name, module, inputs, _ = next(models())
    gm = torch.fx.symbolic_trace(module)
    merged = compose(MergeLinears(), FuseBiasInLinear())(copy.deepcopy(gm))
    with torch.no_grad():
        for parameter in [*gm.parameters(), *merged.parameters()]:
            parameter.mul_(2)
    keep_original(f"{name}-trained", gm, inputs)
    keep(f"{name}-trained.merged", merged)


def main(folder, program):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for kind in ("pt2", "fx"):
        (folder / kind).mkdir(parents=True)
    Files(folder / "pt2", program).make()
    save_graph_modules(folder / "fx")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
