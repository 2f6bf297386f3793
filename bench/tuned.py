# SPDX-License-Identifier: Apache-2.0
"""The speedup of all rewrites, and of those that tune keeps.

    PYTHONPATH=build/python python bench/tuned.py [SECONDS]

Each ratio is the original's time divided by the model's, from `refx bench` (99% interval).
"""

import sys

import torch
from torch import nn

import fx_peers
import refx


def models():
    torch.manual_seed(0)
    bert = nn.Sequential(*[fx_peers.Layer(768, 12) for _ in range(2)]).eval()
    for length in (8, 128):
        yield f"2 layers of BERT-base, 1 x {length}", bert, (torch.randn(1, length, 768),)
    yield "ResNet-50, 1 x 3 x 224 x 224", fx_peers.resnet_50(), (torch.randn(1, 3, 224, 224),)


def shown(b):
    return f"{b.ratio:.3f}x ({b.low:.3f} .. {b.high:.3f})"


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3
    machine = None
    print(f"{'':36} {'all of them':>24} {'tuned':>24}  steps")
    for name, module, args in models():
        best = refx.export(module, args)
        everything = best.copy()
        for transformation, _ in refx._core.transformations():
            everything.apply(transformation)
        best.tune(threads=1, seconds=seconds)
        alone = [m.bench(threads=1, seconds=seconds) for m in (everything, best)]
        machine = alone[0].machine
        print(f"{name:36} {shown(alone[0]):>24} {shown(alone[1]):>24}"
              f"  {len(best.log())} of {len(everything.log())}", flush=True)
    print(f"{machine}, one thread")


if __name__ == "__main__":
    main()
