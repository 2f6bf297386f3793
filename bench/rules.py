# SPDX-License-Identifier: Apache-2.0
"""The speedup of the rules that ship with refx: on their patterns alone, and on models of transformers that contain the
patterns, for each family of rules. Before and after in one run, in refx's executor, in PyTorch (eager) and compiled by
torch.compile.

    pip install transformers
    python bench/rules.py build/bin/refx [--device cuda] [--length 128] [--layers 2] [MODEL...]

The models have two of the layers of the real ones, with random weights.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "python"))
import hub  # noqa: E402

FAMILIES = {
    "attention": ["fuse-attention", "fuse-attention-where", "fuse-attention-masked-fill"],
    "repeated heads": ["fuse-attention", "fuse-attention-repeated-heads"],
    "norms": ["fuse-rms-norm", "fuse-layer-norm"],
    "activations": ["fuse-gelu", "fuse-gelu-tanh", "fuse-silu"],
    "linears": ["fuse-linear", "fuse-linear-transposed", "remove-reshapes-around-linear"],
}
FAMILIES["all of them"] = [rule for family in FAMILIES.values() for rule in family]


class Attention(torch.nn.Module):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v


class LayerNorm(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.ones(size)), torch.nn.Parameter(torch.zeros(size))

    def forward(self, x):
        d = x - x.mean(-1, keepdim=True)
        return d / torch.sqrt(d.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight + self.bias


class RMSNorm(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Gelu(torch.nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))))


class Silu(torch.nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


def alone(args):
    heads = [torch.randn(args.batch, 12, args.length, 64) for _ in range(3)]
    hidden, wide = torch.randn(args.batch, args.length, 768), torch.randn(args.batch, args.length, 3072)
    yield "attention", Attention(), heads
    yield "layer norm", LayerNorm(768), [hidden]
    yield "RMS norm", RMSNorm(768), [hidden]
    yield "GELU by tanh", Gelu(), [wide]
    yield "SiLU", Silu(), [wide]


def models(args):
    words = {"vocab_size": 1000, "num_hidden_layers": args.layers, "max_position_embeddings": 1024}
    ids = torch.randint(3, 900, (args.batch, args.length))
    mask = torch.ones_like(ids)
    text = {"input_ids": ids, "attention_mask": mask}
    yield "bert", transformers.BertModel(transformers.BertConfig(**words, **hub.EAGER)), text
    yield "gpt2", transformers.GPT2Model(transformers.GPT2Config(
        vocab_size=1000, n_layer=args.layers, use_cache=False, **hub.IDS, **hub.EAGER)), text
    yield "llama", transformers.LlamaModel(transformers.LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_attention_heads=16, num_key_value_heads=4, use_cache=False,
        **words, **hub.IDS, **hub.EAGER)), text
    yield "t5 encoder", transformers.T5EncoderModel(transformers.T5Config(
        vocab_size=1000, d_model=768, d_kv=64, d_ff=2048, num_layers=args.layers, num_heads=12,
        feed_forward_proj="gated-gelu", use_cache=False, **hub.EAGER)), text
    yield "vit", transformers.ViTModel(transformers.ViTConfig(num_hidden_layers=args.layers, **hub.EAGER)), {
        "pixel_values": torch.randn(args.batch, 3, 224, 224)}


def export(model, inputs):
    with torch.no_grad(), hub.masks_without_vmap():
        return torch.export.export(model.eval(), tuple(inputs), strict=False)


def seconds(function, synchronize):
    start = time.perf_counter()
    function()
    synchronize()
    return time.perf_counter() - start


def ratio(before, after, inputs, device, rounds=15):
    """The median of how many times as long the first takes as the second, in turns."""
    synchronize = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    with torch.no_grad():
        for _ in range(3):
            before(*inputs), after(*inputs)
        return statistics.median(seconds(lambda: before(*inputs), synchronize) / seconds(lambda: after(*inputs), synchronize)
                                 for _ in range(rounds))


def row(program, path, rules, inputs, compiles, args):
    fast = path.with_name("fast.pt2")
    applied = subprocess.run([args.refx, "apply", path, *dict.fromkeys(rules), "-o", fast, "--json"],
                             capture_output=True, text=True)
    steps = len(json.loads(applied.stdout)["steps"]) if applied.stdout else 0
    if not steps:
        return None
    bench = subprocess.run([args.refx, "bench", fast, "--json", "--threads", str(args.threads), "--device", args.device,
                            "--seconds", "2"], capture_output=True, text=True)
    executor = json.loads(bench.stdout)["contest"]["ratio"] if bench.returncode in (0, 1) and bench.stdout else float("nan")
    before, after = program.module(), torch.export.load(fast).module()
    eager = ratio(before, after, inputs, args.device)
    compiled = float("nan")
    if compiles:
        torch._dynamo.reset()
        compiled = ratio(torch.compile(before), torch.compile(after), inputs, args.device)
    return steps, executor, eager, compiled


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("refx")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, {args.device}, {args.threads} thread(s), "
          f"length {args.length}, batch {args.batch}; times before / after, above 1 is faster")
    print(f"{'model':14}{'rules':16}{'steps':>6}{'refx':>8}{'eager':>8}{'compiled':>10}")
    cases = [(name, model, inputs, {"alone": FAMILIES["all of them"]}) for name, model, inputs in alone(args)]
    cases += [(name, hub.Plain(model, list(inputs)), inputs.values(), FAMILIES) for name, model, inputs in models(args)]
    with tempfile.TemporaryDirectory() as folder:
        for name, model, inputs, families in cases:
            if args.models and name not in args.models:
                continue
            inputs = [value.to(args.device) for value in inputs]
            program = export(model.to(args.device), inputs)
            path = pathlib.Path(folder) / "model.pt2"
            torch.export.save(program, path)
            for family, rules in families.items():
                compiles = args.compile and family in ("alone", "all of them")
                got = row(program, path, rules, inputs, compiles, args)
                if got:
                    print(f"{name:14}{family:16}{got[0]:6}{got[1]:8.2f}{got[2]:8.2f}{got[3]:10.2f}", flush=True)


if __name__ == "__main__":
    main()
