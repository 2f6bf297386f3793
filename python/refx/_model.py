# SPDX-License-Identifier: Apache-2.0
"""Exported programs (``torch.export``) and their histories."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import html
import importlib
import json
import os
import shutil
import sys
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import torch
import torch.utils._pytree as pytree

from . import _core
from ._benchmark import Benchmark
from ._bisection import Bisection
from ._progress import Progress, callback
from ._record import Record
from ._report import Report
from ._sensitivity import Sensitivity
from ._step import Step, warn_of_dropped
from ._table import html_table
from ._tuning import Tuning
from ._verification import Verification


@dataclasses.dataclass(frozen=True)
class Site:
    """A site where a transformation applies."""

    transformation: str
    name: str

    def __str__(self) -> str:
        return _core.printable(f"{self.transformation}  {self.name}")


@dataclasses.dataclass(frozen=True)
class Refusal(Record):
    """A site that a transformation refuses, and why. The fields are those of ``refx inspect --json``."""

    transformation: str
    site: str
    code: str
    """Identifies the reason: a code of ``refx list --reasons``. It does not change in later versions."""
    reason: str
    """The reason as text. ``refx.explain(code)`` says what to do about it."""
    nodes: tuple[str, ...] = dataclasses.field(repr=False)
    """The names of the nodes that the reason is about."""

    def __str__(self) -> str:
        return _core.printable(f"{self.transformation}  {self.site}: refused, {self.reason}")


@dataclasses.dataclass(frozen=True)
class DetachedTensor:
    """An original tensor that was removed from the model. See ``Model.detach``."""

    name: str
    dtype: torch.dtype
    bytes: int

    @classmethod
    def of(cls, name: str, dtype: str, size: int) -> DetachedTensor:
        return cls(name, getattr(torch, dtype.removeprefix("torch.")), size)


_Method = TypeVar("_Method", bound=Callable[..., Any])


class _Text(str):
    """A string whose repr is the string itself."""

    def __repr__(self) -> str:
        return str(self)


def _registered_name(transformation: Any) -> str:
    """The registered name of a transformation, which is given by its name, as a rule, or as a class or object of refx.fx."""
    name = getattr(transformation, "_name", transformation)
    if isinstance(name, str):
        return name
    if hasattr(transformation, "transform"):  # of refx.fx, or written like one
        own = transformation.__name__ if isinstance(transformation, type) else type(transformation).__name__
        raise _core.Error(
            f"{own} is Python code that edits a torch.fx.GraphModule, and a refx.Model has none: it takes the "
            f"transformations that help(refx.fx) lists and rules (refx.rule). Apply {own} to "
            "`gm = model.to_exported().module()`, or write it as a rule, see docs/rules.md")
    raise _core.Error(f"{transformation!r} is not a transformation: give a name, such as \"merge-linears\", a class "
                      "of refx.fx or a rule")


def _flatten(values: Iterable[Any]) -> Iterator[Any]:
    """The items of nested lists, tuples and compositions, in order."""
    for value in values:
        parts = getattr(value, "_parts", value)  # of refx.fx.compose
        if isinstance(parts, (list, tuple)):
            yield from _flatten(parts)
        else:
            yield value


def _names(transformations: Iterable[Any]) -> list[str]:
    """The names of the transformations. "all" is replaced by the names that it stands for."""
    return _core.find_transformations([_registered_name(transformation) for transformation in _flatten(transformations)])


def _step_selector(what: Any) -> str:
    """What selects steps: an id, a transformation or a site, as a string."""
    if isinstance(what, Step):
        return str(what.id)
    if isinstance(what, (int, str)):
        return str(what)
    if isinstance(getattr(what, "_name", None), str):  # a rule, or a class or object of refx.fx
        return _registered_name(what)
    raise _core.Error(f"{what!r} selects no steps: give a step or its id, the name of a transformation or a pattern")


def _requires_unchanged_files(method: _Method) -> _Method:
    """Checks after the method that the files of the models, which the result was read from, have not changed."""

    @functools.wraps(method)
    def checked(self: Model, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        for model in (self, *args, *kwargs.values()):
            if isinstance(model, Model):
                model._core.require_unchanged()
        return result

    return cast(_Method, checked)


def _core_of(argument: str, model: Model | None) -> Any:
    if model is not None and not isinstance(model, Model):
        given = repr(model) if isinstance(model, (str, os.PathLike)) else f"a {type(model).__name__}"
        raise TypeError(f"{argument} takes a refx.Model, such as refx.load(path), not {given}")
    return None if model is None else model._core


def _as_list(argument: str, value: str | Iterable[str]) -> list[str]:
    values = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    for one in values:
        if not isinstance(one, str):
            raise TypeError(f"{argument} takes a string or a list of strings, not {value!r}")
    return values


def _as_path(argument: str, path: str | os.PathLike[str], what: str) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{argument} takes the path of {what}, not {path!r}")
    return os.fspath(path)


def _patterns(patterns: str | Iterable[str] | None) -> list[str]:
    """Patterns that choose sites. None, and the library's empty list, mean all sites; an empty list is a mistake."""
    if patterns is None:
        return []
    chosen = _as_list("site", patterns)
    if not chosen:
        raise _core.Error("site=[] chooses no site; omit `site`, or pass None, for all sites")
    return chosen


def _steps(core: Any) -> list[Step]:
    return [Step(i, transformation, site, tuple(nodes), size, signature, numerics)
            for i, transformation, site, nodes, size, signature, numerics in core.steps()]


class _Folder:
    """A temporary folder, which is deleted with its last reference."""

    def __init__(self, where: str | None):
        self.name = tempfile.mkdtemp(dir=where)
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


def _make_folder(tensors: Iterable[Any]) -> _Folder:
    """A folder for a file with these tensors: in memory, if there is room."""
    size = sum(tensor.nbytes for tensor in tensors if isinstance(tensor, torch.Tensor))
    memory = "/dev/shm"
    try:
        status = os.statvfs(memory)
        fits = status.f_bavail * status.f_frsize > 2 * size and os.access(memory, os.W_OK)
    except OSError:
        fits = False
    in_memory = fits and "TMPDIR" not in os.environ  # who sets that wants it to be used
    return _Folder(memory if in_memory else None)


class Model:
    """An exported program and the history of its rewrites. See ``load``, ``export`` and ``from_exported``.

    Threads may share a model. A change works on a copy, which replaces the model when the change is complete: calls
    that began earlier see the model as it was. Changes run one after the other.
    """

    def __init__(self, core: _core.Model, folder: _Folder | None = None, allow_ops: Iterable[str] = ()):
        self._core = core  # never changed, only replaced: see _changing
        self._folder = folder  # of the file behind it, where that is temporary
        self._allow_ops = list(allow_ops)
        self._executor: Any = None  # of the last run
        self._change_lock = threading.Lock()
        self._executor_lock = threading.Lock()
        self._changed_by: int | None = None  # the thread that holds _change_lock

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Any]:
        """A copy to change. It replaces the model when the block ends without an exception."""
        if self._changed_by == threading.get_ident():
            raise _core.Error("the model is being changed by the call that this one is made from, such as tune(); "
                              "change a copy: model.copy()")
        with self._change_lock:
            self._changed_by = threading.get_ident()
            try:
                core = self._core.copy()
                yield core
                self._core = core
            finally:
                self._changed_by = None

    @property
    def graph(self) -> str:
        """The text form of the graph, its tensors and modules."""
        return _Text(self._core.text())

    @_requires_unchanged_files
    def state_dict(self) -> dict[str, torch.Tensor]:
        """Parameters and persistent buffers by name. The tensors share memory with the model."""
        return {name: tensor for name, tensor, kind, persistent in self._core.state()
                if persistent and kind != "constant"}

    def load_state_dict(self, state_dict: Mapping[str, torch.Tensor]) -> Model:
        """Replaces the weights of the original, and applies the steps to the new weights.

        The steps are applied again in order, at the same sites: merged and folded weights are computed from the new ones,
        and undo returns the new ones bit for bit. If a key is missing or unknown, a shape or dtype differs, or a step does
        not apply as it did before, that is an ``Error``, and nothing is changed.

        Args:
            state_dict: tensors under the keys of the original, all of them.
        """
        with self._changing() as core:
            core.load_weights(dict(state_dict))
        return self

    def to(self, device: torch.device | str) -> Model:
        """Moves the model, its history and the constants of its graph to a device.

        There is no dtype argument, because an exported program names the dtypes that its operators compute in. Export the
        module in the dtype you want, or apply a rule such as ``compute-linear-bf16``.
        """
        with self._changing() as core:
            core.move_to(torch.device(device))
        return self

    def sites(self, *transformations: Any, site: str | Iterable[str] | None = None,
              exclude: str | Iterable[str] = ()) -> list[Site]:
        """The sites where transformations apply.

        Args:
            transformations: as for ``apply``. Without any: all.
            site: patterns of the sites to use; None means all. See ``apply``.
            exclude: patterns of the sites to leave out.
        """
        found = self._findings(transformations, site, exclude)
        return [Site(transformation, name) for transformation, name, refusal in found if refusal is None]

    def refusals(self, *transformations: Any, site: str | Iterable[str] | None = None,
                 exclude: str | Iterable[str] = ()) -> list[Refusal]:
        """The sites where transformations are refused, and the reasons.

        Args:
            transformations: as for ``apply``. Without any: all.
            site: patterns of the sites to use; None means all. See ``apply``.
            exclude: patterns of the sites to leave out.
        """
        found = self._findings(transformations, site, exclude)
        return [Refusal.from_json(dict(transformation=transformation, site=name, code=why[0], reason=why[1], nodes=why[2]))
                for transformation, name, why in found if why is not None]

    def _findings(self, transformations: tuple[Any, ...], site: str | Iterable[str] | None,
                  exclude: str | Iterable[str]) -> list[tuple[str, str, tuple[str, str, list[str]] | None]]:
        names = _names(transformations) or [n for n, _ in _core.transformations()]
        return self._core.find(names, _patterns(site), _as_list("exclude", exclude))

    def apply(self, *transformations: Any, site: str | Iterable[str] | None = None,
              exclude: str | Iterable[str] = ()) -> list[Step]:
        """Applies transformations in order, and returns the new steps. If one fails, none is applied.

        Args:
            transformations: names, classes or objects of refx.fx, rules, or lists of these. "all" means every transformation
                that preserves results, except the few that help on some machines only; ``refx list`` shows them.
            site: patterns of the sites to rewrite; None means all. A pattern (with ``*`` and ``?``) matches the name of a
                site, or the path of a module, tensor or node that the site would rewrite. The path of a module matches
                everything in it. A pattern that matches nothing is an error.
            exclude: patterns of the sites to leave out.
        """
        names = _names(transformations)
        if not names:
            raise _core.Error('apply takes one or more transformations; "all" means every one that preserves results')
        with self._changing() as core:
            ids = set(core.apply(names, _patterns(site), _as_list("exclude", exclude)))
        return [step for step in _steps(core) if step.id in ids]

    def log(self) -> list[Step]:
        """The steps in the history, oldest first. All of them can be reversed."""
        return _steps(self._core)

    def reverse(self, what: None | int | str | Step | Sequence[Any] = None, *, dependents: str = "reapply",
                discard_changes: bool = False, base: str | os.PathLike[str] = "") -> Model:
        """Reverses steps.

        Args:
            what: a step or its id, the name of a transformation, a pattern as for ``apply``, or a list of these. None means
                all steps.
            dependents: what happens to later steps that build on a reversed one. "reapply" applies them again, and drops
                with a warning those whose rule is not loaded or no longer matches. "cascade" reverses them, too. "refuse"
                makes them an error.
            discard_changes: discard changes of weights that cannot be carried back.
            base: the file with the detached originals. Only the originals that are needed are read. See ``attach``.
        """
        steps = None if what is None else [_step_selector(one) for one in _flatten([what])]
        with self._changing() as core:  # all of it or nothing
            dropped = core.reverse(steps, dependents, discard_changes, os.fspath(base))
        warn_of_dropped(dropped, stacklevel=3)
        return self

    def redo(self) -> bool:
        """Restores the step that was reversed last. Returns False if there is none."""
        with self._changing() as core:
            return core.redo()

    def forget(self) -> None:
        """Removes the history, and the originals that it keeps."""
        with self._changing() as core:
            core.forget()

    def detach(self) -> list[DetachedTensor]:
        """Removes the originals from the model, and from the files that ``save`` writes.

        Their names, sizes, dtypes and hashes stay. To reverse a step whose originals are detached, pass ``base``, or call
        ``attach`` first. Originals that take no space, because the model uses their memory, stay. Returns the removed
        tensors.
        """
        with self._changing() as core:
            return [DetachedTensor.of(*tensor) for tensor in core.detach()]

    def detached(self) -> list[DetachedTensor]:
        """The originals that were removed from the model."""
        return [DetachedTensor.of(*tensor) for tensor in self._core.detached()]

    def attach(self, base: str | os.PathLike[str]) -> Model:
        """Restores detached originals.

        An original whose contents have changed is an error that names it, and nothing is changed.

        Args:
            base: the file that was transformed, a .safetensors file, or a folder of these.
        """
        with self._changing() as core:
            core.attach(os.fspath(base))
        return self

    def original(self) -> Model:
        """The model before its first step."""
        return Model(self._core.original(), self._folder, self._allow_ops)

    def copy(self) -> Model:
        """A copy with its own history and the same tensors."""
        return Model(self._core.copy(), self._folder, self._allow_ops)

    @_requires_unchanged_files
    def diff(self, other: Model | None = None) -> str:
        """The differences from another model as text. The text is empty if there are none.

        Args:
            other: the other model. By default, the original of this model.
        """
        if other is None:
            return _Text(self.original()._core.diff(self._core))
        return _Text(self._core.diff(_core_of("other", other)))

    @_requires_unchanged_files
    def verify(self, against: Model | None = None, *, inputs: Any = None, steps: int = 0, per_step: bool = False,
               power: bool = False, tolerance: float = 0, budget: float = 0, sort: str = "step",
               batch: int = 0, threads: int | None = None, seed: int = 0, progress: Progress | None = None) -> Verification:
        """Checks whether the model computes what its original does.

        Both models run in fp64 and in their own dtype. Differences that rounding explains are accepted.

        Args:
            against: another model to compare with. By default, the original of this model.
            inputs: ``(args, kwargs)``, or args alone, or a list of such sets of inputs (of calls, for a model that keeps
                state). By default the sample inputs of the file are used, or generated inputs.
            steps: for a model that keeps state: how many calls follow the first one (docs/lab.md, "Sequences of calls").
            per_step: also check each step by itself.
            power: also measure, for each step, the smallest error that would be detected.
            tolerance: the largest relative error that is accepted, instead of what rounding explains.
            budget: the largest relative L2 error that approximate steps may cause.
            sort: the order of the steps: "step", or "error" for the largest error first.
            batch: the size of a dynamic first dimension, for generated inputs.
            threads: how many threads a run uses.
            seed: of the generated inputs.
            progress: a function that is called as ``progress(done, total, what)``, or a bar of tqdm.
        """
        if sort not in ("step", "error"):
            raise ValueError(f'sort is "step" or "error", not {sort!r}')
        return Verification.of(self._core.verify(
            _core_of("against", against), inputs=inputs, steps=steps, per_step=per_step, power=power, tolerance=tolerance,
            budget=budget, by_error=sort == "error", batch=batch, threads=threads, seed=seed, progress=callback(progress)))

    @_requires_unchanged_files
    def sensitivity(self, *transformations: Any, site: str | Iterable[str] | None = None, exclude: str | Iterable[str] = (),
                    inputs: Any = None, steps: int = 0, reversed: bool = False, batch: int = 0,
                    threads: int | None = None, seed: int = 0, progress: Progress | None = None) -> Sensitivity:
        """Measures the error that each approximate step causes by itself, by one run for each.

        Args:
            transformations: approximate transformations to try on a copy, in addition to the steps of the model.
            site: patterns of the sites to use; None means all. See ``apply``.
            exclude: patterns of the sites to leave out.
            inputs: ``(args, kwargs)``, or args alone, or a list of such calls. By default the sample inputs of the file
                are used, or generated inputs.
            steps: for a model that keeps state: how many calls follow the first one (docs/lab.md, "Sequences of calls").
            reversed: also measure approximate steps that were reversed.
            batch: the size of a dynamic first dimension, for generated inputs.
            threads: how many threads a run uses.
            seed: of the generated inputs.
            progress: a function that is called as ``progress(done, total, what)``, or a bar of tqdm.
        """
        return Sensitivity.of(self._core.sensitivity(
            _names(transformations), site=_patterns(site), exclude=_as_list("exclude", exclude), inputs=inputs, steps=steps,
            reversed=reversed, batch=batch, threads=threads, seed=seed, progress=callback(progress)))

    @_requires_unchanged_files
    def bench(self, against: Model | None = None, *, inputs: Any = None, steps: int = 0, batch: int = 0,
              threads: int | None = None, device: str = "", cuda_graph: bool = False,
              per_step: bool = False, rounds: int = 10, seconds: float = 3, seed: int = 0,
              progress: Progress | None = None) -> Benchmark:
        """Measures how much faster the model is than its original. Both run in turns.

        Args:
            against: another model to compare with. By default, the original of this model.
            inputs: ``(args, kwargs)``, or args alone, or a list of such calls. By default the sample inputs of the file
                are used, or generated inputs.
            steps: for a model that keeps state: how many calls follow the first one (docs/lab.md, "Sequences of calls").
            batch: the size of a dynamic first dimension, for generated inputs.
            threads: how many threads a run uses.
            device: such as "cuda".
            cuda_graph: run both models as CUDA graphs.
            per_step: also measure the model without each step.
            rounds: how many rounds to measure.
            seconds: how long to measure, about.
            seed: of the generated inputs.
            progress: a function that is called as ``progress(done, total, what)``, or a bar of tqdm.
        """
        return Benchmark.of(self._core.bench(
            _core_of("against", against), inputs=inputs, steps=steps, batch=batch, threads=threads, device=device,
            cuda_graph=cuda_graph, per_step=per_step, rounds=rounds, seconds=seconds, seed=seed,
            progress=callback(progress)))

    @_requires_unchanged_files
    def tune(self, *transformations: Any, site: str | Iterable[str] | None = None, exclude: str | Iterable[str] = (),
             inputs: Any = None, steps: int = 0, batch: int = 0, threads: int | None = None,
             device: str = "", seconds: float = 3, seed: int = 0,
             budget: float = 0, accept: Callable[[Model], bool | float] | None = None, accept_min: float | None = None,
             prefer: str = "speed", trials: str | os.PathLike[str] = "", resume: str | os.PathLike[str] = "",
             progress: Progress | None = None) -> Tuning:
        """Keeps the rewrites that make the model faster on this machine, and reverses the others.

        Args:
            transformations: what to try. Without any: all that preserve results.
            site: patterns of the sites and steps to decide about; None means all. See ``apply``.
            exclude: patterns of the sites and steps to leave as they are.
            inputs: ``(args, kwargs)``, or args alone, or a list of such sets of inputs (of calls, for a model that keeps
                state). By default the sample inputs of the file are used, or generated inputs.
                With several sets, a third of them is used for the final comparison only.
            steps: for a model that keeps state: how many calls follow the first one (docs/lab.md, "Sequences of calls").
            batch: the size of a dynamic first dimension, for generated inputs.
            threads: how many threads a run uses.
            device: such as "cuda".
            seconds: how long to measure each pair of models, about.
            seed: of the generated inputs.
            budget: the largest relative L2 error that approximate rewrites may cause. 0: no limit.
            accept: a test of candidates. It takes a model, and returns whether it is accepted, or its score.
            accept_min: the smallest score that is accepted.
            prefer: "speed" or "size".
            trials: a file to which every measurement is appended.
            resume: a file of trials that are not measured again.
            progress: a function that is called as ``progress(done, total, what)``, or a bar of tqdm.
        """
        if prefer not in ("speed", "size"):
            raise ValueError(f'prefer is "speed" or "size", not {prefer!r}')
        with self._changing() as core:
            return Tuning.of(core.tune(
                _names(transformations), site=_patterns(site), exclude=_as_list("exclude", exclude), inputs=inputs, steps=steps,
                batch=batch, threads=threads, device=device, seconds=seconds, seed=seed, budget=budget,
                accept=self._acceptance_test(accept, accept_min), smaller=prefer == "size",
                trials=_as_path("trials", trials, "the file of trials to write"),
                resume=_as_path("resume", resume, "a file of trials"),
                progress=callback(progress)))

    def _acceptance_test(self, accept: Callable[[Model], bool | float] | None,
                         accept_min: float | None) -> Callable[[Any], tuple[bool, float | None]] | None:
        """A function that returns whether a candidate is accepted, and its score."""
        if accept is None:
            if accept_min is not None:
                raise _core.Error("accept_min is the smallest score that is accepted: pass accept, which returns the score")
            return None
        if not callable(accept):
            raise TypeError("accept takes a function of a refx.Model that returns True, False or a score, "
                            f"not {accept!r}")

        def test(core: Any) -> tuple[bool, float | None]:
            answer = accept(Model(core, self._folder))
            if answer is None:
                raise _core.Error("accept returned None: it must return True, False or a score")
            if accept_min is None:
                if isinstance(answer, (int, float)) and not isinstance(answer, bool):  # all but 0 would be accepted
                    raise _core.Error(f"accept returned the score {answer}: pass accept_min, the smallest score that is accepted")
                return bool(answer), None
            return float(answer) >= accept_min, float(answer)

        return test

    @_requires_unchanged_files
    def bisect(self, check: Callable[[Model], bool | None] | float | str, *, inputs: Any = None,
               steps: int = 0, seed: int = 0, journal: str | os.PathLike[str] = "",
               progress: Progress | None = None) -> Bisection:
        """Finds the smallest sets of steps that make a check fail.

        Args:
            check: a function that takes a model and returns True (good), False (bad) or None (undecided); or a number, the
                largest relative error; or a shell command in which {} stands for the path of a file, with the exit codes
                0 (good), 125 (undecided) and 1 to 124 (bad).
            inputs: as for ``verify``, if ``check`` is a number.
            steps: as for ``verify``, if ``check`` is a number.
            seed: of the generated inputs.
            journal: a file that records the search, so that it can be continued after an interruption.
            progress: a function that is called as ``progress(done, total, what)``, or a bar of tqdm.
        """
        path, on_progress = os.fspath(journal), callback(progress)
        if isinstance(check, str):
            result = self._core.bisect_by_command(check, path, on_progress)
        elif callable(check):
            judge = check
            result = self._core.bisect(lambda core: judge(Model(core, self._folder)), path,
                                       getattr(check, "__qualname__", ""), on_progress)
        else:
            result = self._core.bisect_within(float(check), path, inputs=inputs, steps=steps, seed=seed,
                                              progress=on_progress)
        return Bisection.of_steps(result, self.log())

    def report(self, path: None | str | os.PathLike[str] = None, *, title: str = "",
               verify: bool = True, bench: bool = True, per_step: bool = False, inputs: Any = None,
               threads: int | None = None, seconds: float = 3, seed: int = 0,
               progress: Progress | None = None) -> Report:
        """Writes a page about the model, its steps and their effect. A notebook shows it inline.

        Args:
            path: the file to write. By default, none.
            title: of the page.
            verify: also verify the model.
            bench: also benchmark the model.
            per_step: also verify and benchmark each step.
            inputs: ``(args, kwargs)``, or args alone. By default the sample inputs of the file are used, or generated inputs.
            threads: how many threads a run uses.
            seconds: how long to benchmark, about.
            seed: of the generated inputs.
            progress: a function that is called as ``progress(done, total, what)``, or a bar of tqdm.
        """
        page = Report(self._core.report(
            title=title, verify=verify, bench=bench, per_step=per_step, inputs=inputs, threads=threads,
            seconds=seconds, seed=seed, progress=callback(progress)))
        self._core.require_unchanged()
        if path is not None:
            self._core.write_report(os.fspath(path), page)
        return page

    @_requires_unchanged_files
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model, without autograd, with the arguments of the exported module.

        Arguments and outputs may be containers that are registered with ``torch.utils._pytree``, such as the caches of
        transformers.

        State that the model writes (caches, counters) belongs to the runs: each run continues with the state that the last
        one left, and the tensors of the model, which ``save`` writes, do not change. A rewrite resets the state. See
        ``run_state`` and ``reset_state``.

        Threads may call the model at the same time. Calls run in parallel, except that calls of a model that writes state
        run one after the other.
        """
        core, executor = self._ready()
        return _restore_classes(core.output_spec(), core.run(executor, args, kwargs))

    __call__ = forward

    def _ready(self) -> tuple[Any, Any]:
        """The current model and its executor. All threads share the executor, because the state belongs to it."""
        with self._executor_lock:
            core = self._core
            if self._executor is None or self._executor.revision() != core.revision():
                self._executor = _core.Executor(core)
            return core, self._executor

    @_requires_unchanged_files
    def run_state(self) -> dict[str, torch.Tensor]:
        """The state that runs of the model may write, by name, as the last run left it.

        The next run uses these tensors. To set the state, write into them.
        """
        return dict(self._ready()[1].state())

    def reset_state(self) -> None:
        """Resets the state: the next run starts with the state that is saved in the model."""
        self._ready()[1].reset_state()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file that ``torch.export.load`` reads, with the history inside."""
        self._core.save(os.fspath(path))

    def to_exported(self) -> torch.export.ExportedProgram:
        """The current model as an ExportedProgram."""
        folder = _make_folder(self.state_dict().values())
        path = os.path.join(folder.name, "model.pt2")
        self.save(path)
        return torch.export.load(path)

    def __reduce__(self) -> Any:
        raise TypeError("a refx.Model is not pickled or deep-copied: copy() makes another with the same tensors, "
                        "save(path) and refx.load(path) one with its own")

    def __repr__(self) -> str:
        nodes, tensors, steps = self._core.counts()
        lines = [f"refx.Model: {nodes} nodes, {tensors} tensors, {steps} steps"]
        lines += [f"  {step}" for step in self.log()[:20]]
        if steps > 20:
            lines.append(f"  ... {steps - 20} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        nodes, tensors, _ = self._core.counts()
        steps = html_table(["step", "transformation", "site"],
                           [[step.id, step.transformation, step.site] for step in self.log()])
        return (f"<p><b>refx.Model</b>: {nodes} nodes, {tensors} tensors</p>{steps}"
                f"<details><summary>graph</summary><pre>{html.escape(self._core.text())}</pre></details>")


# What a run returns by itself.
_PLAIN = ("builtins.tuple", "builtins.list", "builtins.dict")


def _class_names(part: Any) -> Iterator[str]:
    """The names of the classes in a treespec, except tuples, lists and dicts."""
    if part["type"] is not None:
        if part["type"] not in _PLAIN:
            yield part["type"]
        for child in part["children_spec"]:
            yield from _class_names(child)


@functools.lru_cache(maxsize=64)
def _custom_treespec(spec: str) -> pytree.TreeSpec | None:
    """The treespec of an output, if it contains other classes than tuples, lists and dicts.

    Raises LookupError if such a class is not registered here. Enum values are not resolved, because torch would import
    what the file names.
    """
    if not spec or "__enum__" in spec:
        return None
    classes = list(_class_names(json.loads(spec)[1]))
    for name in classes:
        if name not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
            _import_transformers(name)
        if name not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
            raise LookupError(name)
    return pytree.treespec_loads(spec) if classes else None


def _import_transformers(name: str) -> None:
    """Imports the module of a class of transformers, which registers the class, if transformers is in use here.

    Nothing else is imported: a file does not decide which code runs.
    """
    module = name.rpartition(".")[0]
    if "transformers" in sys.modules and module.startswith("transformers."):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


@functools.lru_cache(maxsize=64)
def _warn_unregistered(name: str) -> None:
    warnings.warn(f"the exported module returned a {name}, which is not registered with torch.utils._pytree here: "
                  f"a tuple is returned instead. Import {name.rpartition('.')[0] or name} first", stacklevel=5)


def _restore_classes(spec: str, output: Any) -> Any:
    """The output with the classes that the exported module returned, if they are registered."""
    try:
        tree = _custom_treespec(spec)
    except LookupError as missing:
        _warn_unregistered(missing.args[0])
        return output
    except (NotImplementedError, TypeError, ValueError):
        return output
    return output if tree is None else pytree.tree_unflatten(pytree.tree_leaves(output), tree)


def _namespaces(program: torch.export.ExportedProgram) -> set[str]:
    """The namespaces of the operators that a program calls."""
    return {node.target.namespace for module in program.graph_module.modules()
            if isinstance(module, torch.fx.GraphModule) for node in module.graph.nodes
            if isinstance(node.target, torch._ops.OpOverload)}


def _load_via_file(program: torch.export.ExportedProgram, allow_ops: list[str]) -> Model:
    folder = _make_folder([*program.state_dict.values(), *program.constants.values()])
    path = os.path.join(folder.name, "model.pt2")
    torch.export.save(program, path)
    return Model(_core.load(path, True, allow_ops), folder, allow_ops)


def load(path: str | os.PathLike[str], *, history: bool = True,
         allow_ops: str | Iterable[str] = ()) -> Model:
    """Reads a file of ``torch.export.save`` or ``Model.save``, without running pickle.

    Args:
        path: the file.
        history: False ignores the history in the file.
        allow_ops: operators that the model may call besides those of aten that were tested with hostile arguments: a
            namespace such as "mylib", or a name such as "aten.from_file".
    """
    return Model(_core.load(os.fspath(path), history, _as_list("allow_ops", allow_ops)), None, _as_list("allow_ops", allow_ops))


def from_exported(program: torch.export.ExportedProgram, *,
                  allow_ops: str | Iterable[str] = ()) -> Model:
    """Makes a Model of an ExportedProgram. It may call the operators of the namespaces that the program uses.

    Args:
        program: what ``torch.export.export`` returned.
        allow_ops: further operators that the model may call. See ``load``.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise TypeError(f"from_exported takes an ExportedProgram, not a {type(program).__name__}; "
                        "refx.export(module, args) does both")
    return _load_via_file(program, [*_as_list("allow_ops", allow_ops), *sorted(_namespaces(program))])


def export(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
           **options: Any) -> Model:
    """Exports a module with ``torch.export.export`` and makes a Model of the program.

    Args:
        module: the module.
        args: sample arguments.
        kwargs: sample keyword arguments.
        options: further options of ``torch.export.export``, such as ``dynamic_shapes``.
    """
    return from_exported(torch.export.export(module, args, kwargs, **options))
