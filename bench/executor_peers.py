# SPDX-License-Identifier: Apache-2.0
"""The model of bench/executor.cpp, run by PyTorch's own executors on the same machine.

    python bench/executor_peers.py build/bin/bench_executor

Prints microseconds per forward (minima over short stretches, one thread) and ratios to refx.
"""

import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F
from torch import nn

LENGTH, HEADS = 16, 4


class Block(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(h, h) for _ in range(4))
        self.up, self.down = nn.Linear(h, 4 * h), nn.Linear(4 * h, h)
        self.n1, self.n2 = nn.LayerNorm(h), nn.LayerNorm(h)

    def forward(self, x):
        d = x.shape[-1] // HEADS
        q, k, v = (
            f(x).view(1, LENGTH, HEADS, d).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        a = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(d), -1)
        y = (a @ v).transpose(1, 2).reshape(1, LENGTH, -1)
        z = self.n1(x + self.o(y))
        return self.n2(z + self.down(F.gelu(self.up(z))))


def microseconds(f, rounds=300, repeats=5):
    for _ in range(20):
        f()
    best = math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            f()
        best = min(best, (time.perf_counter() - start) / repeats)
    return best * 1e6


def peers(h):
    """Name and callable of every way to run the model; what does not work here is left out."""
    model = nn.Sequential(Block(h), Block(h)).eval()
    x = torch.randn(1, LENGTH, h)
    exported = torch.export.export(model, (x,))
    module = exported.module()
    yield "eager", lambda: model(x)
    yield "ep.module()", lambda: module(x)
    frozen = torch.jit.freeze(torch.jit.trace(model, x))
    yield "TorchScript frozen", lambda: frozen(x)
    compiled = torch.compile(model)
    yield "torch.compile", lambda: compiled(x)
    with tempfile.TemporaryDirectory() as folder:
        path = torch._inductor.aoti_compile_and_package(exported, package_path=f"{folder}/m.pt2")
        package = torch._inductor.aoti_load_package(path)
        yield "AOTInductor", lambda: package(x)


def refx(program, h):
    """The C++ benchmark's counters for this width."""
    command = [program, f"--benchmark_filter=transformer/{h}/", "--benchmark_format=json"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out)["benchmarks"][0]


def main(program):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
          f"torch {torch.__version__}, Python {platform.python_version()}")
    for h in (64, 128, 256):
        print(f"hidden {h}", flush=True)
        ours = refx(program, h)

        def show(name, us):
            print(f"  {name:20} {us:9.1f} us   {us / ours['planned_us']:5.2f} x refx planned", flush=True)

        show("refx planned", ours["planned_us"])
        show("refx plain", ours["plain_us"])
        show("C++ unboxed", ours["unboxed_us"])
        with torch.no_grad():
            try:
                for name, f in peers(h):
                    show(name, microseconds(f))
            except Exception as error:  # a compiler that is not there, most likely
                print(f"  {type(error).__name__}: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
