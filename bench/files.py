# SPDX-License-Identifier: Apache-2.0
"""Times of opening and saving .pt2 files, compared with torch.export and a plain copy, and of commands on a long history.

    python bench/files.py build/bin/bench_files [FOLDER]
"""

import copy
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(h, h) for _ in range(4))
        self.up, self.down = nn.Linear(h, 4 * h), nn.Linear(4 * h, h)
        self.norm1, self.norm2 = nn.LayerNorm(h), nn.LayerNorm(h)

    def forward(self, x):
        b, n, h = x.shape
        q, k, v = (f(x).view(b, n, -1, 64).transpose(1, 2) for f in (self.query, self.key, self.value))
        a = torch.softmax(q @ k.transpose(-1, -2) / 8.0, -1) @ v
        x = self.norm1(x + self.out(a.transpose(1, 2).reshape(b, n, h)))
        return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, h, layers, words):
        super().__init__()
        self.words, self.places = nn.Embedding(words, h), nn.Embedding(512, h)
        self.layers = nn.ModuleList(Layer(h) for _ in range(layers))

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return x


def best(f, rounds=3):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


class Division(nn.Module):
    def forward(self, x):
        return x / 3.0


# A chain of divisions, made of one: torch.export would take an hour for it.
def write_chain(path, length):
    torch.export.save(torch.export.export(Division(), (torch.ones(2, 2),)), path)
    with zipfile.ZipFile(path) as file:
        root = file.namelist()[0].split("/")[0] + "/"
        records = {name.removeprefix(root): file.read(name) for name in file.namelist()}
    model = json.loads(records["models/model.json"])
    graph, signature = model["graph_module"]["graph"], model["graph_module"]["signature"]
    (division,), names = graph["nodes"], [f"div_{i}" for i in range(length)]
    graph["nodes"] = []
    for name, before in zip(names, ["x", *names], strict=False):
        node = copy.deepcopy(division)
        node["inputs"][0]["arg"]["as_tensor"]["name"] = before
        node["outputs"][0]["as_tensor"]["name"] = node["name"] = name
        graph["nodes"].append(node)
    graph["tensor_values"] = dict.fromkeys(["x", *names], graph["tensor_values"]["x"])
    graph["outputs"][0]["as_tensor"]["name"] = names[-1]
    signature["output_specs"][0]["user_output"]["arg"]["as_tensor"]["name"] = names[-1]
    records["models/model.json"] = json.dumps(model).encode()
    writer = torch._C.PyTorchFileWriter(path)
    for name, data in records.items():
        if name not in (".data/serialization_id", ".data/version", "byteorder"):  # it writes them itself
            writer.write_record(name, data, len(data))
    writer.write_end_of_file()


# Milliseconds that a command takes, and those that it has the processor.
def timed(command):
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, capture_output=True)
    wall, after = time.perf_counter() - start, os.times()
    return wall * 1e3, (after.children_user + after.children_system - before.children_user - before.children_system) * 1e3


# Commands on a history of `steps`, beside a program that loads LibTorch and ends.
def long_history(program, folder, steps):
    refx = os.path.join(os.path.dirname(program), "refx")
    path, changed, out = (f"{folder}/{name}.pt2" for name in ("chain", "changed", "out"))
    write_chain(path, steps)
    commands = {
        "only LibTorch": [program],
        "--version": [refx, "--version"],
        "apply": [refx, "apply", path, "change-true-div-to-mul-by-inverse", "-o", changed],
        "cp and sync": ["sh", "-c", f"cp {changed} {out} && sync {out}"],
        "log": [refx, "log", changed],
        "log --json": [refx, "log", changed, "--json"],
        "reverse one": [refx, "reverse", changed, str(steps // 2), "-o", out],
    }
    print(f"{steps} steps: {os.path.getsize(path) / 2**20:.0f} MB before them")
    for name, command in commands.items():
        wall, cpu = (min(column) for column in zip(*(timed(command) for _ in range(5)), strict=True))
        print(f"  {name:13} {wall:9.0f} ms   on the processor {cpu:9.0f} ms")


def main():
    program = sys.argv[1]
    print(f"{platform.machine()}, torch {torch.__version__}, one thread; minima, files in the page cache")
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        for name, h, layers, words in [("BERT-base", 768, 12, 30522), ("2 GB", 1536, 17, 30522)]:
            path, out = f"{folder}/model.pt2", f"{folder}/out.pt2"
            with torch.no_grad():
                model = Encoder(h, layers, words).eval()
                dims = {"ids": {0: torch.export.Dim("b", min=1, max=64), 1: torch.export.Dim("n", min=2, max=512)}}
                exported = torch.export.export(model, (torch.zeros(2, 8, dtype=torch.long),), dynamic_shapes=dims)
            save = best(lambda: torch.export.save(exported, path), 1)
            exported = model = None
            load = best(lambda: torch.export.load(path), 2)
            run = subprocess.run(
                [program, path, out, "merge-linears", "change-true-div-to-mul-by-inverse"],
                check=True, capture_output=True, text=True)
            r = json.loads(run.stdout)
            touched = layers * 3 * h * (h + 1) * 4 / 2**20
            print(f"{name}: {os.path.getsize(path) / 2**20:.0f} MB, {r['steps']} steps")
            print(f"  open          {r['open_ms']:9.1f} ms   torch.export.load {load:8.0f} ms   {load / r['open_ms']:6.1f}x faster")
            print(f"  apply + save  {r['apply_save_ms']:9.1f} ms   cp + sync {r['copy_ms']:16.0f} ms   "
                  f"{r['apply_save_ms'] / r['copy_ms']:6.2f}x of it   "
                  f"(of it apply {r['apply_ms']:.0f} ms; torch.export.save {save:.0f} ms)")
            print(f"  peak memory   {r['peak_mb']:9.0f} MB   weights touched {touched:10.0f} MB")
            sys.stdout.flush()
        long_history(program, folder, 100_000)


main()
