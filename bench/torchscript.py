# SPDX-License-Identifier: Apache-2.0
"""A small transformer (4 layers of width 128, batch 1, one thread) in refx and in TorchScript.

    PYTHONPATH=build/python python bench/torchscript.py [LENGTH...]

Forms take turns. Prints the minimum of each in microseconds per forward, and its ratio to
`torch.jit.optimize_for_inference`.
"""

import math
import os
import sys
import time
import warnings

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from torch import nn

import refx

HEADS, WIDTH, LAYERS = 4, 128, 4
ROUNDS, CALLS = 300, 3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        length, depth = x.shape[1], WIDTH // HEADS
        q, k, v = (f(x).view(1, length, HEADS, depth).transpose(1, 2) for f in (self.q, self.k, self.v))
        attention = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(depth), -1)
        y = (attention @ v).transpose(1, 2).reshape(1, length, -1)
        z = self.n1(x + self.o(y))
        return self.n2(z + self.down(nn.functional.gelu(self.up(z))))


def forms(length):
    model = nn.Sequential(*[Block() for _ in range(LAYERS)]).eval()
    x = torch.randn(1, length, WIDTH)
    plain = refx.export(model, (x,))
    scripted = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, (x,))))
    calls = {"TorchScript": scripted, "eager": model, "refx": plain}
    for names in (["all"], ["store-linear-transposed"], ["all", "store-linear-transposed"]):
        rewritten = plain.copy()
        rewritten.apply(*names)
        calls["refx, " + " + ".join(names)] = rewritten
    for call in calls.values():
        torch.testing.assert_close(call(x), model(x))
    return calls, x


def measure(length):
    calls, x = forms(length)
    best = dict.fromkeys(calls, math.inf)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                call(x)
            best[name] = min(best[name], (time.perf_counter() - start) / CALLS)
    print(f"length {length}")
    for name, seconds in best.items():
        print(f"  {name:36} {seconds * 1e6:8.0f} us {seconds / best['TorchScript']:6.2f}")


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with torch.inference_mode():
        for length in [int(word) for word in sys.argv[1:]] or [8, 32, 128]:
            measure(length)


main()
