# SPDX-License-Identifier: Apache-2.0
"""Speed, error and size of lossy rewrites, compared with other tools on the same model; all in one run, in turns.

    PYTHONPATH=build/python python bench/lossy.py [--layers 12] [--length 8 128] [--json FILE] [--refx build/bin/refx]
    PYTHONPATH=build/python python bench/lossy.py --cuda

On a CPU, int8: an encoder of BERT-base's shape with random weights, one thread and all cores. On a GPU, bfloat16
and int8: the same encoder, and a ResNet-50. Each row has the time of a forward pass (the best of many), how many
times as fast as the first row it is (the median of all turns), the relative L2 error of the output against fp64, and
the size of the file. Peers that are not installed are named at the end: torchao, ONNX Runtime with onnx.
"""

import argparse
import copy
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")

import numpy  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import refx  # noqa: E402

WIDTH, HEADS = 768, 12


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        heads = [f(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (self.query, self.key, self.value)]
        x = self.norm1(x + self.output(F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        sizes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1)]
        self.parts = nn.ModuleList(convolution(*size) for size in sizes)
        self.short = convolution(inputs, 4 * width, 1, stride) if stride != 1 or inputs != 4 * width else nn.Identity()

    def forward(self, x):
        a, b, c = self.parts
        return F.relu(c(F.relu(b(F.relu(a(x))))) + self.short(x))


def convolution(inputs, outputs, kernel, stride):
    norm = nn.BatchNorm2d(outputs)
    norm.running_mean.normal_(0, 0.1)
    norm.running_var.uniform_(0.5, 1.5)
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), norm)


def encoder(layers):
    return nn.Sequential(*(Layer() for _ in range(layers))).eval()


def resnet_50():
    parts, inputs = [convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(count):
            parts.append(Bottleneck(inputs, width, 2 if i == 0 and width > 64 else 1))
            inputs = 4 * width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)).eval()


class Contest:
    """Forms of one model, by name; each with what runs it, and the size of its file."""

    def __init__(self, module, x, args):
        self.module, self.x, self.args = module, x, args
        self.forms, self.missing = {}, {}
        reference = copy.deepcopy(module).double()
        self.exact = reference(x.double()).cpu()

    def add(self, name, run, size=None):
        error = float((run(self.x).double().cpu() - self.exact).norm() / self.exact.norm())
        if not error < 0.5:
            raise AssertionError(f"{name}: a relative error of {error}")
        self.forms[name] = {"run": run, "size": size, "error": error}

    def add_peer(self, name, make):
        """What others made, if they are there and it works."""
        try:
            self.add(name, *make())
        except Exception as error:
            self.missing[name] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"

    def compiled(self, name, module, size=None):
        if self.args.compile:
            # Small models on a GPU wait for launches, unless they are captured.
            mode = "reduce-overhead" if self.args.cuda else None
            self.add_peer(f"{name}, compiled", lambda: (torch.compile(module, dynamic=False, mode=mode), size))

    def seconds(self, run):
        start = time.perf_counter()
        run(self.x)
        if self.x.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    def rows(self):
        times = {name: [] for name in self.forms}
        for form in self.forms.values():
            for _ in range(3):
                self.seconds(form["run"])
        end = time.perf_counter() + self.args.seconds
        while time.perf_counter() < end or len(times[next(iter(times))]) < 5:
            for name, form in self.forms.items():
                times[name].append(self.seconds(form["run"]))
        first = next(iter(times))
        for name, form in self.forms.items():
            ratio = statistics.median(a / b for a, b in zip(times[first], times[name], strict=True))
            yield {"form": name, "ms": 1e3 * min(times[name]), "ratio": ratio, "error": form["error"],
                   "bytes": form["size"]}


def rewritten(model, rule, folder):
    """A copy of the model with the rule everywhere, and its file."""
    made = model.copy()
    if not made.apply(rule):
        raise AssertionError(f"{rule} applies nowhere: {[str(site) for site in made.refusals(rule)][:3]}")
    path = folder / f"{rule}.pt2"
    made.save(path)
    return made, path


def size_of_state(module, folder):
    path = folder / "state.pt"
    torch.save(module.state_dict(), path)
    return path.stat().st_size


def torchao_int8(module, folder):
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_
    made = copy.deepcopy(module)
    quantize_(made, Int8DynamicActivationInt8WeightConfig())
    return made, size_of_state(made, folder)


def torch_int8(module, folder):
    made = torch.ao.quantization.quantize_dynamic(module, {nn.Linear}, dtype=torch.qint8)
    return made, size_of_state(made, folder)


def onnx_int8(module, x, folder, threads):
    import onnxruntime
    import onnxruntime.quantization
    plain, path = folder / "plain.onnx", folder / "int8.onnx"
    torch.onnx.export(module, (x,), str(plain), input_names=["x"], dynamo=False)
    onnxruntime.quantization.quantize_dynamic(plain, path, per_channel=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # it would slow the others down
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    array = numpy.ascontiguousarray(x.numpy())
    return lambda _: torch.from_numpy(session.run(None, {"x": array})[0]), path.stat().st_size


def on_cpu(module, x, threads, folder, args):
    contest = Contest(module, x, args)
    model = refx.export(module, (x,))
    model.save(folder / "plain.pt2")
    plain = (folder / "plain.pt2").stat().st_size
    contest.add("fp32, refx", model, plain)
    contest.add("fp32, torch eager", module)
    contest.compiled("fp32, torch", module)
    for rule in ("quantize-linear-int8", "store-linear-int8"):
        made, path = rewritten(model, rule, folder)
        contest.add(f"{rule}, refx", made, path.stat().st_size)
        if rule == "quantize-linear-int8":
            loaded = torch.export.load(path).module()
            contest.add("its file, torch eager", loaded)
            contest.compiled("its file, torch", loaded)
    contest.add_peer("torchao int8, eager", lambda: torchao_int8(module, folder))
    if "torchao int8, eager" in contest.forms:
        contest.compiled("torchao int8", contest.forms["torchao int8, eager"]["run"])
    contest.add_peer("quantize_dynamic", lambda: torch_int8(module, folder))
    contest.add_peer("ONNX Runtime int8", lambda: onnx_int8(module, x, folder, threads))
    return contest


def on_cuda(module, x, rules, folder, args):
    contest = Contest(module, x, args)
    model = refx.export(module, (x,))
    contest.add("fp32, torch eager", module)
    contest.compiled("fp32, torch", module)
    contest.add_peer("fp32, refx", lambda: (model,))
    for rule in rules:
        made, path = rewritten(model, rule, folder)
        loaded = torch.export.load(path).module()
        contest.add(f"{rule}, torch eager", loaded, path.stat().st_size)
        contest.compiled(f"{rule}, torch", loaded)
        contest.add_peer(f"{rule}, refx", lambda made=made: (made,))
    return contest


def sizes(folder, args):
    """Files with their originals, without their history, and where the program can do so, detached."""
    for rule in ("quantize-linear-int8", "store-linear-int8"):
        path = folder / f"{rule}.pt2"
        row = {"file": rule, "with originals": path.stat().st_size}
        alone = refx.load(path)
        alone.forget()
        alone.save(folder / "alone.pt2")
        row["forgotten"] = (folder / "alone.pt2").stat().st_size
        commands = subprocess.run([args.refx, "--help"], capture_output=True, text=True).stdout if args.refx else ""
        if "\n  detach " in commands:
            subprocess.run([args.refx, "detach", path, "-o", folder / "slim.pt2"], check=True, capture_output=True)
            row["detached"] = (folder / "slim.pt2").stat().st_size
        yield row


def show(title, contest, results):
    print(f"\n{title}\n  {'':36}{'ms':>10}{'ratio':>8}{'L2':>10}{'MB':>9}", flush=True)
    for row in contest.rows():
        size = f"{row['bytes'] / 1e6:9.1f}" if row["bytes"] else ""
        print(f"  {row['form']:36}{row['ms']:10.3f}{row['ratio']:8.2f}{row['error']:10.1e}{size}", flush=True)
        results.append({"case": title, **row})


def run_cpu(args, folder, results, missing):
    module = encoder(args.layers)
    for threads in dict.fromkeys((1, args.threads or torch.get_num_threads())):
        torch.set_num_threads(threads)
        for length in args.length:
            torch._dynamo.reset()
            contest = on_cpu(module, torch.randn(1, length, WIDTH), threads, folder, args)
            show(f"{args.layers} layers of BERT-base, 1 x {length}, {threads} thread(s)", contest, results)
            missing.update(contest.missing)
    plain = (folder / "plain.pt2").stat().st_size
    print(f"\nsizes of files, as parts of the original's {plain / 1e6:.1f} MB")
    for row in sizes(folder, args):
        print(f"  {row['file']:24}" + "  ".join(f"{name}: {size / plain:.3f}" for name, size in row.items() if name != "file"))
        results.append({"case": "sizes", "original": plain, **row})


def run_cuda(args, folder, results, missing):
    shapes = [(1, 128), (8, 128), (32, 512)]
    cases = [(f"{args.layers} layers of BERT-base, {n} x {length}", encoder(args.layers).cuda(),
              torch.randn(n, length, WIDTH, device="cuda"), ["compute-linear-bf16", "quantize-linear-int8"])
             for n, length in shapes]
    cases += [(f"ResNet-50, {n} x 3 x 224 x 224", resnet_50().cuda(), torch.randn(n, 3, 224, 224, device="cuda"),
               ["compute-conv-2d-bf16"]) for n in (1, 32)]
    for title, module, x, rules in cases:
        torch._dynamo.reset()
        contest = on_cuda(module, x, rules, folder, args)
        show(title, contest, results)
        missing.update(contest.missing)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--length", type=int, nargs="+", default=[8, 128])
    parser.add_argument("--threads", type=int, default=0, help="instead of all cores")
    parser.add_argument("--seconds", type=float, default=30, help="for each table")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    parser.add_argument("--refx", default=os.environ.get("REFX_PROGRAM") or shutil.which("refx"), help="the program")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    torch.manual_seed(0)
    processor = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                      if line.startswith("model name")), platform.machine())
    machine = {"processor": torch.cuda.get_device_name() if args.cuda else processor, "cores": os.cpu_count(),
               "torch": torch.__version__, "instructions": torch.backends.cpu.get_cpu_capability()}
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    results, missing = [], {}
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        (run_cuda if args.cuda else run_cpu)(args, pathlib.Path(folder), results, missing)
    for name, why in missing.items():
        print(f"not here: {name} ({why})")
    if args.json:
        args.json.write_text(json.dumps({"machine": machine, "rows": results, "missing": missing}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
