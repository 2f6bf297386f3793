# SPDX-License-Identifier: Apache-2.0
"""Times of transforming and undoing torch.fx GraphModules, in refx.fx and in optimum.fx.optimization.

    python bench/fx_peers.py [--nodes 1000,10000,100000] [--repeat 5] [--core]

One thread. refx and optimum take turns, A B A B, each time with a fresh model. Freed memory is returned to the
system first, so the times include the first access to new memory. Ratios compare the minima of this run.

    core            without lint and recompile (``lint_and_recompile=False``)
    transform, undo as users call it, with lint and recompile, which both packages leave to torch.fx
    one pass        the time to copy the weights that the transformation creates into new memory, and the
                    transformation's time in multiples of it. optimum often frees old weights and reuses their
                    memory; refx keeps them for undo

Without optimum installed, refx runs alone; transformers is not needed.
"""

import argparse
import ctypes
import gc
import importlib.util
import platform
import statistics
import sys
import time
import types

import torch
from torch import nn

import refx.fx


def peer():
    """optimum.fx.optimization, with or without transformers."""
    try:
        import optimum.fx.optimization as module
        return module
    except ImportError:
        pass
    spec = importlib.util.find_spec("optimum")
    if spec is None:
        return None
    # All that it takes of transformers is a decorator for docstrings, and a function to be traced.
    names = ("transformers", "transformers.file_utils", "transformers.utils", "transformers.utils.fx")
    for name in names:
        sys.modules[name] = types.ModuleType(name)
    sys.modules[names[1]].add_end_docstrings = lambda *_: lambda f: f
    sys.modules[names[3]]._gen_constructor_wrapper = lambda f: (traced(f), f)
    folder = spec.submodule_search_locations[0]
    path = f"{folder}/fx/optimization/transformations.py"
    spec = importlib.util.spec_from_file_location("optimum_fx_transformations", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def traced(function):
    """The function, which becomes a node if an argument is a proxy."""
    def call(*args, **kwargs):
        found = []
        torch.fx.node.map_aggregate((args, kwargs), lambda v: found.append(v) if isinstance(
            v, torch.fx.Proxy) else None)
        if not found:
            return function(*args, **kwargs)
        return found[0].tracer.create_proxy("call_function", function, args, kwargs)
    return call


# ---- models ----------------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, self.size).permute(0, 2, 1, 3)

    def forward(self, x):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / 8.0, -1)
        return self.out(torch.matmul(scores, v).permute(0, 2, 1, 3).flatten(2))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.down(torch.nn.functional.gelu(self.up(x))))


def bert_base():
    return torch.fx.symbolic_trace(nn.Sequential(*(Layer(768, 12) for _ in range(12))).eval())


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        def conv(i, o, k, s=1):
            return nn.Conv2d(i, o, k, s, k // 2, bias=False)
        self.conv1, self.bn1 = conv(inputs, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        self.down = None
        if stride != 1 or inputs != 4 * width:
            self.down = nn.Sequential(conv(inputs, 4 * width, 1, stride), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(torch.relu(self.bn2(self.conv2(y)))))
        return torch.relu(y + (x if self.down is None else self.down(x)))


def resnet_50():
    layers, inputs = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inputs, width, stride if i == 0 else 1))
            inputs = 4 * width
    return torch.fx.symbolic_trace(nn.Sequential(*layers).eval())


def synthetic(nodes, one_input=False):
    """Groups of three small linears with one input and four other nodes; or all with one input."""
    root, graph = nn.Module(), torch.fx.Graph()
    x = first = graph.placeholder("x")
    for i in range(nodes // 7):
        block = nn.Module()
        for name in "qkv":
            block.add_module(name, nn.utils.skip_init(nn.Linear, 4, 4))
        root.add_module(f"b{i}", block)
        q, k, v = (graph.call_module(f"b{i}.{name}", (first if one_input else x,)) for name in "qkv")
        s = graph.call_function(torch.add, (q, k))
        s = graph.call_function(torch.relu, (s,))
        s = graph.call_function(torch.div, (s, 2.0))
        x = graph.call_function(torch.add, (s, v))
    graph.output(x)
    return torch.fx.GraphModule(root, graph)


# ---- timing ----------------------------------------------------------------------------------------


PASS = "one pass"
COLUMNS = ("transform, core", "undo, core", "transform", "undo")
_trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)  # glibc has it


def timed(*functions):
    """Milliseconds until each of the functions is done, one after another."""
    gc.collect()
    _trim(0)
    gc.disable()
    start, ends = time.perf_counter(), []
    for function in functions:
        function()
        ends.append(time.perf_counter())
    gc.enable()
    return [(end - start) * 1e3 for end in ends]


def once(module, name, make, times, lint, reversible):
    """Transforms a fresh model and takes that back; notes the milliseconds."""
    gm = make()
    known = {id(tensor) for tensor in gm.parameters()}
    transformation = getattr(module, name)()
    steps = {"transform": lambda: transformation(gm, lint_and_recompile=lint)}
    if reversible:
        steps["undo"] = lambda: transformation(gm, lint_and_recompile=lint, reverse=True)
    for step, function in steps.items():
        times[step if lint else f"{step}, core"] += timed(function)
        if step == "transform":
            made = [tensor.detach() for tensor in gm.parameters() if id(tensor) not in known]
            copies = []
            times[PASS] += timed(lambda: copies.extend(tensor.clone() for tensor in made))


def row(label, mine, theirs):
    cells = [label.ljust(44)]
    for key in COLUMNS:
        ours, other = (min(times[key], default=None) for times in (mine, theirs))
        text = "-" if ours is None else f"{ours:.1f}"
        ratio = "" if ours is None or other is None else f"({other / ours:5.1f}x)"
        cells.append(f"{text:>8} {ratio:9}")
    one = min(mine[PASS])
    whole = min(mine["transform"] or mine["transform, core"])
    if one > 1:
        cells.append(f"{one:8.1f} ({whole / one:.2f} of them)")
    print(" ".join(cells), flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--nodes", default="1000,10000,100000")
    arguments.add_argument("--repeat", type=int, default=5)
    arguments.add_argument("--core", action="store_true", help="only without lint and recompile")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    other = peer()
    print(f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}, "
          f"refx {refx.__version__}, " + ("beside optimum" if other else "optimum is not installed"))
    print("milliseconds of refx, minimum of the repeats; in brackets how many times faster than optimum\n")
    print(" " * 44, *(f"{heading:>18}" for heading in (*COLUMNS, PASS)))

    lints = (False,) if options.core else (False, True)

    def compare(label, name, make, repeat, reversible=True, alone=False):
        mine, theirs = ({key: [] for key in (*COLUMNS, PASS)} for _ in range(2))
        for _ in range(repeat):
            for lint in lints:
                once(refx.fx, name, make, mine, lint, True)
                if other and not alone:
                    once(other, name, make, theirs, lint, reversible)
        row(label, mine, theirs)

    r = options.repeat
    compare("BERT-base, MergeLinears", "MergeLinears", bert_base, r)
    compare("BERT-base, FuseBiasInLinear", "FuseBiasInLinear", bert_base, r)
    compare("BERT-base, ChangeTrueDivToMulByInverse", "ChangeTrueDivToMulByInverse", bert_base, r)
    compare("ResNet-50, FuseBatchNorm2dInConv2d", "FuseBatchNorm2dInConv2d", resnet_50, r, False)
    for nodes in map(int, options.nodes.split(",")):
        few = r if nodes < 50_000 else min(r, 2)
        compare(f"{nodes} nodes, MergeLinears", "MergeLinears", lambda: synthetic(nodes), few)
        compare(f"{nodes} nodes, FuseBiasInLinear", "FuseBiasInLinear", lambda: synthetic(nodes), few)
        for name in ("MergeLinears", "FuseBiasInLinear"):  # in the second, optimum is quadratic
            compare(f"{nodes} nodes, one input, {name}", name,
                    lambda: synthetic(nodes, one_input=True), few, alone=nodes > 10_000)
    graphs = (bert_base() for _ in range(r))
    times = [timed(lambda: refx.fx.explain(refx.fx.MergeLinears(), gm))[0] for gm in graphs]
    print("\nmedian load of a transform of nothing (import of BERT-base):",
          f"{statistics.median(times):.1f} ms")


if __name__ == "__main__":
    main()
