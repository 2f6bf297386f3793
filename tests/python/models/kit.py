# SPDX-License-Identifier: Apache-2.0
"""What all models here are made with: the examples, their registry, and helpers."""

import dataclasses
import os
import tempfile
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

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


def export(name, path):
    """Writes the model to a .pt2 file."""
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
