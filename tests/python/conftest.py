# SPDX-License-Identifier: Apache-2.0
"""The program under test (REFX_PROGRAM), and files made with it.

Exporting models and starting programs is what costs time here. So two processes export while two
threads drive the program, both ahead of the tests that look at the results.
"""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import threading
import warnings

import pytest
import torch

import models
import torch_oracle

HERE = pathlib.Path(__file__).parent
PROGRAM = os.environ.get("REFX_PROGRAM")

torch.set_num_threads(1)


WITHOUT_PROGRAM = {"test_floors.py", "test_link_package.py", "test_words.py"}  # they read sources only


def pytest_collection_modifyitems(items):
    if not PROGRAM:
        for item in items:
            if item.path.name in WITHOUT_PROGRAM:
                continue
            item.add_marker(pytest.mark.skip(reason="REFX_PROGRAM is not set"))


SUMMARY = []  # lines for the end of the report


def pytest_terminal_summary(terminalreporter):
    for line in SUMMARY:
        terminalreporter.write_line(line)


@dataclasses.dataclass
class Result:
    command: tuple
    code: int
    out: str
    err: str

    def json(self):
        return json.loads(self.out)

    def __str__(self):
        return f"refx {' '.join(self.command)}\nexit code {self.code}\n{self.out}{self.err}"


class Program:
    """Runs refx. Whatever it is given, it never dies of a signal and never calls itself faulty. Torch judges the model
    that it wrote; `attempt` leaves that to the test."""

    judged_by_torch = True  # what it writes is loaded and run in this process

    def __call__(self, *args, code=0):
        result = self.attempt(*args)
        assert result.code >= 0, f"killed by signal {-result.code}: {result}"
        assert result.code != 3, f"an internal error: {result}"
        if code is not None:
            assert result.code == code, str(result)
        if result.code == 0 and self.judged_by_torch:
            torch_oracle.check_written(PROGRAM, args)
        return result

    def attempt(self, *args):
        args = tuple(str(a) for a in args)
        env = dict(os.environ, OMP_NUM_THREADS="1", NO_COLOR="1")
        try:
            done = subprocess.run([PROGRAM, *args], capture_output=True, encoding="utf-8", errors="replace", env=env,
                                  timeout=120)
        except subprocess.TimeoutExpired:
            return Result(args, 124, "", "still running after 120 s")
        return Result(args, done.returncode, done.stdout, done.stderr)

    def log(self, path):
        return self("log", path, "--json").json()


@pytest.fixture(scope="session")
def refx():
    return Program()


class Exports:
    """Models as torch.export.save writes them. In REFX_TEST_MODELS, a folder, they are kept for the next run."""

    def __init__(self, folder, names):
        self.folder = folder
        self.lock = threading.Lock()
        self.started = {}
        names = [name for name in names if not self.kept(name)]
        for part in (names[0::2], names[1::2]):
            self.start(part)

    def kept(self, name):
        path = self.folder / f"{name}.pt2"
        return path.exists() and path.stat().st_mtime > max(p.stat().st_mtime for p in (HERE / "models").glob("*.py"))

    def start(self, names):
        if names:
            command = [sys.executable, "-W", "ignore", "-m", "models", self.folder.resolve(), *names]
            process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                       env=dict(os.environ, OMP_NUM_THREADS="1"))
            for name in names:
                self.started[name] = process

    def __call__(self, name):
        path = self.folder / f"{name}.pt2"
        with self.lock:
            if name not in self.started and not self.kept(name):
                self.start([name])
        process = self.started.get(name)
        while not self.kept(name):
            try:
                _, err = process.communicate(timeout=0.1)
                assert self.kept(name), f"cannot export {name}:\n{err}"
            except subprocess.TimeoutExpired:
                pass
        return path

    def stop(self):
        for process in set(self.started.values()):
            process.kill()
            process.wait()


class Made:
    """The files that refx made of one model, and what it said; briefly: with all transformations."""

    def __init__(self, name, refx, export, folder, brief=False):
        self.name = name
        self.entry = models.MODELS[name]
        self.folder = folder
        self.original = export(name)
        self.results = {}
        folder.mkdir()
        self.run(refx, "all", "apply", self.original, "all")
        if not brief:
            self.look_closer(refx)

    def look_closer(self, refx):
        for transformation in self.entry.sites:
            self.run(refx, transformation, "apply", self.original, transformation)
        without = [t for t in models.TRANSFORMATIONS if t not in self.entry.sites]
        if len(without) > 3:
            self.run(refx, "untouched", "apply", self.original, *without)
        if self.results["all"].code == 0:
            self.run(refx, "back", "reverse", self.path("all"), "--all")
            if self.entry.runs:
                self.results["verify"] = refx.attempt("verify", self.path("all"), "--json")
                self.results["run"] = refx.attempt("run", self.original, "-o", self.folder / "outputs.pt")
        self.results["inspect"] = refx.attempt("inspect", self.original, "--json")

    def run(self, refx, key, *command):
        self.results[key] = refx.attempt(*command, "-o", self.path(key))

    def path(self, key):
        return self.folder / f"{key}.pt2"

    def result(self, key, code=0):
        assert key in self.results, "an earlier command failed"
        result = self.results[key]
        assert result.code == code, str(result)
        return result

    def file(self, key):
        self.result(key)
        return self.path(key)


class Workshop:
    def __init__(self, refx, folder, wanted, brief):
        exports = pathlib.Path(os.environ.get("REFX_TEST_MODELS") or folder / "models")
        exports.mkdir(exist_ok=True)
        self.export = Exports(exports, wanted)
        self.refx, self.folder = refx, folder
        self.pool = concurrent.futures.ThreadPoolExecutor(2)
        self.futures = {}
        for name in wanted:
            self.futures[name] = self.pool.submit(Made, name, refx, self.export, folder / name, brief)

    def made(self, name):
        return self.futures[name].result()


@pytest.fixture(scope="session")
def workshop(refx, request, tmp_path_factory):
    items = [item for item in request.session.items if "made" in getattr(item, "fixturenames", ())]
    wanted = {item.callspec.params["made"] for item in items}
    brief = all(item.module.__name__ == "test_mutations" for item in items)
    workshop = Workshop(refx, tmp_path_factory.mktemp("workshop"), [n for n in models.MODELS if n in wanted], brief)
    yield workshop
    workshop.pool.shutdown(cancel_futures=True)
    workshop.export.stop()


@pytest.fixture(scope="module", params=list(models.MODELS))
def made(request, workshop):
    return workshop.made(request.param)


@pytest.fixture(scope="session")
def exported(workshop):
    """exported(name): the path of a model's file."""
    return workshop.export


def load(path, **kw):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.load(path, **kw)
