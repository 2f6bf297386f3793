# SPDX-License-Identifier: Apache-2.0
"""The life of a file that torch.export.save wrote: what each command of refx makes of it, judged by torch."""

import collections
import hashlib
import json
import os
import pathlib
import subprocess
import warnings

import torch
from torch.utils import _pytree as pytree

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9, torch.bfloat16: 5e-2, torch.float16: 1e-2}


def load(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.load(path)


def outputs(program, inputs=None):
    """What torch computes, as a flat list. The same seed, so that random numbers are the same each time."""
    args, kwargs = inputs or program.example_inputs
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    torch.manual_seed(0)
    with torch.no_grad():
        return pytree.tree_leaves(program.module()(*args, **kwargs))


def difference(was, now):
    """The largest error relative to the largest value, in units of the tolerance of the dtype: up to 1 agrees."""
    if len(was) != len(now):
        return float("inf")
    worst = 0.0
    for a, b in zip(was, now):
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            worst = max(worst, 0.0 if a == b else float("inf"))
        elif a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        elif not a.is_floating_point():
            worst = max(worst, 0.0 if torch.equal(a, b) else float("inf"))
        elif a.numel():
            allowed, wild = TOLERANCE.get(a.dtype, 1e-4), ~a.isfinite()
            if not torch.equal(a[wild].nan_to_num(7), b[wild].nan_to_num(7)):
                return float("inf")
            a, b = a.masked_fill(wild, 0).double(), b.masked_fill(wild, 0).double()
            scale = max(a.abs().max().item(), 1e-6)
            error = (a - b).abs().max().item() / scale / allowed
            worst = max(worst, float("inf") if error != error else error)
    return worst


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Life:
    """Takes one file through inspect, apply, load, verify and reverse. `record` has what was seen."""

    def __init__(self, program, path, folder, timeout=300):
        self.program, self.path, self.folder, self.timeout = program, pathlib.Path(path), pathlib.Path(folder), timeout
        self.record, self.problems = {}, []

    def refx(self, *args):
        env = dict(os.environ, OMP_NUM_THREADS="1", NO_COLOR="1")
        env.pop("PYTHONPATH", None)
        try:
            done = subprocess.run([self.program, *map(str, args)], capture_output=True, text=True, env=env, errors="replace",
                                  timeout=self.timeout)
        except subprocess.TimeoutExpired:
            return 124, "", f"still running after {self.timeout} s"
        return done.returncode, done.stdout, done.stderr

    def problem(self, what, text):
        self.problems.append(f"{what}: {text.strip()[:500]}")

    def run(self):
        fast, back, out = (self.folder / name for name in ("fast.pt2", "back.pt2", "out.pt"))
        program = load(self.path)
        was = outputs(program)
        code, text, err = self.refx("inspect", self.path, "--json")
        if code:
            self.problem("inspect", err)
        else:
            self.record["nodes"] = json.loads(text)["nodes"]
        code, text, err = self.refx("run", self.path, "-o", out)
        self.record["runs"] = code == 0
        if code:
            self.problem("run", err)
        else:
            self.compare_run(was, out)
        code, text, err = self.refx("apply", self.path, "all", "-o", fast, "--json")
        if code:
            self.problem("apply", err)
            return self.done()
        steps = collections.Counter(step["transformation"] for step in json.loads(text)["steps"])
        self.record["steps"] = dict(sorted(steps.items()))
        try:
            self.record["difference"] = difference(was, outputs(load(fast), program.example_inputs))
            if not self.record["difference"] <= 1:
                self.problem("torch", f"results differ by {self.record['difference']:.3g} times what is allowed")
        except Exception as error:
            self.problem("load", f"{type(error).__name__}: {error}")
        if self.record["runs"]:
            self.verify(fast)
        code, text, err = self.refx("reverse", fast, "--all", "-o", back)
        self.record["back"] = code == 0 and sha256(back) == sha256(self.path)
        if not self.record["back"]:
            self.problem("reverse", err or "another file")
        return self.done()

    def compare_run(self, was, out):
        try:
            now = pytree.tree_leaves(torch.load(out, weights_only=False))
            was, now = ([x for x in xs if isinstance(x, torch.Tensor)] for xs in (was, now))
            self.record["run_difference"] = difference(was, now)
            self.record["run_equal"] = len(was) == len(now) and all(
                torch.equal(a.nan_to_num(7), b.nan_to_num(7)) for a, b in zip(was, now))
            if not self.record["run_difference"] <= 1:
                self.problem("run", f"results differ by {self.record['run_difference']:.3g} times what is allowed")
        except Exception as error:
            self.problem("run", f"{type(error).__name__}: {error}")

    def verify(self, fast):
        code, text, err = self.refx("verify", fast, "--json")
        try:
            result = json.loads(text)
            self.record["verdict"] = result["verdict"]
            if code:
                self.problem("verify", f"{result['verdict']}: {result['reason']}")
        except (ValueError, KeyError):
            self.record["verdict"] = "error"
            self.problem("verify", err or f"exit code {code}")

    def done(self):
        self.record["problems"] = self.problems
        return self.record
