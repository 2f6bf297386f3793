# SPDX-License-Identifier: Apache-2.0
"""Small models for the commands that measure and search, and a program that runs in a folder of its own."""

import json
import os
import pathlib
import shlex
import signal
import subprocess
import time
import types
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import archives
import torch_oracle

PROGRAM = os.environ.get("REFX_PROGRAM")
# By name and in the order of `all`, so that a transformation which is added changes no result here.
REWRITES = ("fuse-batch-norm-2d-in-conv-2d", "fuse-batch-norm-1d-in-linear", "merge-linears",
            "change-true-div-to-mul-by-inverse", "fuse-bias-in-linear")
PATIENCE = 120  # seconds for what must happen sooner or later


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        return F.relu(self.q(x) / 3.0 + self.k(x) * self.v(x))


class Blocks(nn.Module):
    """Places of two kinds, each several times, and one of a third kind; steps that are built on others."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Fold(nn.Module):
    """A batch norm that costs as much as the convolution before it: folding halves the time on any machine."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)

    def forward(self, x):
        return self.norm(self.conv(x))


class Wide(nn.Module):
    """Padding the input costs three times as much as the linear: fusing the bias pays on no machine."""

    def __init__(self):
        super().__init__()
        self.narrow = nn.Linear(512, 1)

    def forward(self, x):
        return self.narrow(x)


class Level(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return torch.floor(x / self.by)


class Floors(nn.Module):
    """41 / 41 is 1, but 41 * (1 / 41) is a little less in fp32, and its floor is 0. Inverses of powers of two are exact."""

    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList(Level(by) for by in (2.0, 4.0, 41.0, 8.0))

    def forward(self, x):
        return sum(level(x) for level in self.levels)


class Choice(nn.Module):
    """Cannot be run without Python."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (self.a(x) + self.b(x),))


def batch(limit):
    return ({0: torch.export.Dim("batch", min=1, max=limit)},)


MODELS = {
    "blocks": lambda: (Blocks(), torch.randn(2, 8), batch(16)),
    "fold": lambda: (Fold(), torch.randn(2, 4, 64, 64), None),
    "wide": lambda: (Wide(), torch.randn(256, 512), None),
    "floors": lambda: (Floors(), torch.full((3,), 41.0), None),
    "choice": lambda: (Choice(), torch.randn(3, 4), None),
    "plain": lambda: (nn.ReLU(), torch.randn(3), None),
}


def until(wanted, measure, attempts=5):
    """The first result of `measure` that `wanted` accepts, or else the last one.

    For measurements of forms whose times differ by a factor of two or more. Another process on the same
    machine can disturb such a measurement once, but a wrong answer is wrong every time.
    """
    for _ in range(attempts):
        result = measure()
        if wanted(result):
            break
    return result


def mark_stable(path):
    """Unstable trials in a file count as measured. refx measures them again, so how many of them
    a later run finds in the file would depend on how busy the machine was."""
    path.write_text(path.read_text().replace('"unstable"', '"no difference"'))


class Models:
    """model(name): the file of a model; model(name, steps=True): with all transformations applied."""

    def __init__(self, folder):
        self.folder = folder
        self.made = {}

    def __call__(self, name, steps=False):
        key = (name, steps)
        if key not in self.made:
            self.made[key] = self.rewritten(name) if steps else self.exported(name)
        return self.made[key]

    def exported(self, name):
        torch.manual_seed(0)
        module, x, shapes = MODELS[name]()
        path = self.folder / f"{name}.pt2"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.export.save(torch.export.export(module.eval(), (x,), dynamic_shapes=shapes), path)
        return path

    def rewritten(self, name):
        path = self.folder / f"{name}-fast.pt2"
        subprocess.run([PROGRAM, "apply", self(name), *REWRITES, "-q", "-o", path], check=True, stdout=subprocess.DEVNULL)
        return path


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return Models(tmp_path_factory.mktemp("lab"))


class Desk:
    """Runs the program in a folder, with a home, a cache and a place for temporary files that are its own."""

    def __init__(self, folder):
        self.work, self.cache, self.temporary = folder / "work", folder / "cache", folder / "temporary"
        for path in (self.work, self.cache, self.temporary):
            path.mkdir()
        path = os.pathsep.join([str(pathlib.Path(PROGRAM).resolve().parent), os.environ["PATH"]])
        taken_away = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        self.env = {k: v for k, v in os.environ.items() if k not in taken_away}
        self.env.update(OMP_NUM_THREADS="1", NO_COLOR="1", XDG_CACHE_HOME=str(self.cache), HOME=str(folder),
                        TMPDIR=str(self.temporary), PATH=path)
        self.started = []

    def put(self, path, name=None):
        """A copy of a file in the folder; the name by which the program finds it."""
        to = self.work / (name or path.name)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(path.read_bytes())
        return str(to.relative_to(self.work))

    def put_unknown(self, path):
        """The same of a file with torch.cond, whose operator becomes one that nobody knows."""
        to = self.work / "unknown.pt2"
        archives.with_json(path, to, lambda value: json.dumps(value).replace("higher_order.cond", "higher_order.gate")
                           .encode())
        return to.name

    def start(self, *args, program=PROGRAM, **env):
        """A process in a group of its own, as a shell starts one."""
        command = [str(a) for a in (program, *args)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", cwd=self.work,
                                   env=dict(self.env, **env), start_new_session=True)
        self.started.append(process)
        return process

    def finish(self, process):
        out, err = process.communicate(timeout=PATIENCE)
        return types.SimpleNamespace(code=process.returncode, out=out, err=err)

    def __call__(self, *args, code=0, **env):
        result = self.finish(self.start(*args, **env))
        assert code is None or result.code == code, f"refx {shlex.join(map(str, args))}\n{result}"
        if result.code == 0:  # the results of "floors" change by design
            torch_oracle.check_written(PROGRAM, args, self.work, compare="floors" not in str(args[1:2]))
        return result

    def error(self, *args, **env):
        """What the program complains about. Nothing is printed as a result, and no file is written or changed."""
        before = self.files()
        result = self(*args, code=2, **env)
        assert result.out == ""
        assert self.files() == before
        return result.err

    def shell(self, line):
        process = subprocess.run(["sh", "-c", line], cwd=self.work, env=self.env, capture_output=True, encoding="utf-8",
                                 timeout=PATIENCE)
        return types.SimpleNamespace(code=process.returncode, out=process.stdout, err=process.stderr)

    def files(self):
        folders = (self.work, self.temporary)
        return {p: p.read_bytes() for folder in folders for p in folder.rglob("*") if p.is_file()}

    def read(self, name):
        return (self.work / name).read_bytes()

    def write(self, name, text):
        (self.work / name).write_text(text)

    def lines(self, name):
        path = self.work / name
        return path.read_text().splitlines() if path.exists() else []

    def wait_for(self, condition, process):
        """Until the condition holds, while the process runs."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert process.poll() is None, f"it ended too early: {self.finish(process)}"
            assert time.monotonic() < end, "it takes too long"
            time.sleep(0.01)

    def kill(self, process, sent=signal.SIGKILL):
        """Sends a signal to the process and to those that it started."""
        os.killpg(process.pid, sent)
        return self.finish(process)

    def close(self):
        for process in self.started:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


@pytest.fixture
def desk(tmp_path):
    desk = Desk(tmp_path)
    yield desk
    desk.close()
