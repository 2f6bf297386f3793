# SPDX-License-Identifier: Apache-2.0
"""Exported programs (``torch.export``) and their history."""

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
from ._lab import (
    Benchmark,
    Bisection,
    Progress,
    Report,
    Sensitivity,
    Tuning,
    Verification,
    callback,
)
from ._step import Step, warn_of_dropped
from ._table import html_table


@dataclasses.dataclass(frozen=True)
class Site:
    """A place where a transformation applies; or, with a reason, one where it does not."""

    transformation: str
    name: str
    refused: str | None = None

    def __str__(self) -> str:
        why = f": refused, {self.refused}" if self.refused else ""
        return _core.printable(f"{self.transformation}  {self.name}{why}")


@dataclasses.dataclass(frozen=True)
class DetachedTensor:
    """An original that left the model, see ``Model.detach``."""

    name: str
    dtype: torch.dtype
    bytes: int

    @classmethod
    def of(cls, name: str, dtype: str, size: int) -> DetachedTensor:
        return cls(name, getattr(torch, dtype.removeprefix("torch.")), size)


_Method = TypeVar("_Method", bound=Callable[..., Any])


class _Text(str):
    """Prints as it is."""

    def __repr__(self) -> str:
        return str(self)


def _name(transformation: Any) -> str:
    """The library's name of a transformation: given as such, as a rule, or as a class or object of refx.fx."""
    name = getattr(transformation, "_name", transformation)
    if isinstance(name, str):
        return name
    if hasattr(transformation, "transform"):  # of refx.fx, or written like one
        own = transformation.__name__ if isinstance(transformation, type) else type(transformation).__name__
        raise _core.Error(
            f"{own} is Python code that edits a torch.fx.GraphModule, and a refx.Model has none: it takes the "
            f"transformations of `refx list` and rules (refx.rule). Apply {own} to "
            "`gm = model.to_exported().module()`, or write it as a rule, see docs/rules.md")
    raise _core.Error(f"{transformation!r} is not a transformation: give a name of `refx list`, a class of refx.fx "
                      "or a rule")


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """What is inside of lists, tuples and compositions, in order."""
    for value in values:
        parts = getattr(value, "_parts", value)  # of refx.fx.compose
        if isinstance(parts, (list, tuple)):
            yield from _flat(parts)
        else:
            yield value


def _names(transformations: Iterable[Any]) -> list[str]:
    """As the program takes them: "all" is what ``refx list`` shows as such."""
    return _core.find_transformations([_name(transformation) for transformation in _flat(transformations)])


def _step(what: Any) -> str:
    """One step, or several by transformation or site, as the library takes it."""
    return str(what.id if isinstance(what, Step) else what if isinstance(what, int) else _name(what))


def _of_its_file(method: _Method) -> _Method:
    """What the method returns comes from the files of the models, so they must still be what they were."""

    @functools.wraps(method)
    def checked(self: Model, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        for model in (self, *args, *kwargs.values()):
            if isinstance(model, Model):
                model._core.require_unchanged()
        return result

    return cast(_Method, checked)


def _core_of(model: Model | None) -> Any:
    return None if model is None else model._core


def _list(value: str | Iterable[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _only(patterns: str | Iterable[str] | None) -> list[str]:
    """Patterns that choose sites. The library takes none of them for all sites; a list that came out empty means none."""
    if patterns is None:
        return []
    chosen = _list(patterns)
    if not chosen:
        raise _core.Error("only=[] chooses no site; leave `only` out, or give None, for all sites")
    return chosen


def _steps(core: Any) -> list[Step]:
    return [Step(i, transformation, site, tuple(nodes), size, signature, lossy)
            for i, transformation, site, nodes, size, signature, lossy in core.steps()]


class _Folder:
    """A temporary folder, gone when nobody holds it any more."""

    def __init__(self, where: str | None):
        self.name = tempfile.mkdtemp(dir=where)
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


def _folder(tensors: Iterable[Any]) -> _Folder:
    """For a file with these tensors: in memory, where there is room."""
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
    """An exported program, and the history of its rewrites. See ``load`` and ``from_exported``.

    Threads may use it at the same time. A change works on a copy, which takes the model's place when the
    change is complete: calls that began before it see the model as it was. Changes take turns.
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
        """A copy to change, which is the model when the block ends without an exception."""
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

    @_of_its_file
    def state_dict(self) -> dict[str, torch.Tensor]:
        """Parameters and persistent buffers by name. The tensors are the model's own."""
        return {name: tensor for name, tensor, kind, persistent in self._core.state()
                if persistent and kind != "constant"}

    def load_state_dict(self, state_dict: Mapping[str, torch.Tensor]) -> Model:
        """Gives the model other weights: those of its original, under the keys that the original has.

        The steps are applied to them again, in order, at the same sites: merged and folded weights are computed from
        the new ones, and undo gives the new ones back exactly. An ``Error``, and no change, if a key is missing or
        unknown, a shape or a dtype is another one, or a step does not apply to the new weights as it did.
        """
        with self._changing() as core:
            core.load_weights(dict(state_dict))
        return self

    def to(self, device: torch.device | str) -> Model:
        """Moves the model, its history included, and what its graph creates to a device.

        There is no dtype here: an exported program names the dtypes that its operators compute in. Export the module in
        the dtype you want, or apply a rule such as ``linear-in-bf16``.
        """
        with self._changing() as core:
            core.move_to(torch.device(device))
        return self

    def sites(self, *transformations: Any, only: str | Iterable[str] | None = None,
              exclude: str | Iterable[str] = ()) -> list[Site]:
        """Where these transformations (none: all) apply. The patterns are those of ``apply``."""
        return [site for site in self._findings(transformations, only, exclude) if site.refused is None]

    def refusals(self, *transformations: Any, only: str | Iterable[str] | None = None,
                 exclude: str | Iterable[str] = ()) -> list[Site]:
        """Where these transformations (none: all) do not apply although it looks so, and why."""
        return [site for site in self._findings(transformations, only, exclude) if site.refused is not None]

    def _findings(self, transformations: tuple[Any, ...], only: str | Iterable[str] | None,
                  exclude: str | Iterable[str]) -> list[Site]:
        names = _names(transformations) or [n for n, _ in _core.transformations()]
        return [Site(*found) for found in self._core.find(names, _only(only), _list(exclude))]

    def apply(self, *transformations: Any, only: str | Iterable[str] | None = None,
              exclude: str | Iterable[str] = ()) -> list[Step]:
        """Applies transformations, by name or class, or lists of them, at the sites that the patterns choose.

        All of them, or none if one fails.

        ``"all"`` stands for those that do not change results, except the few that ``refx list`` shows as not in it,
        which pay on some machines only. A pattern (``*`` and ``?``) matches a
        site by its name, or by the path of a module, tensor or node that it would rewrite; the path of a
        module stands for everything in it. One that matches nothing is an error.
        """
        with self._changing() as core:
            ids = set(core.apply(_names(transformations), _only(only), _list(exclude)))
        return [step for step in _steps(core) if step.id in ids]

    def log(self) -> list[Step]:
        """The steps that were applied and can be taken back, oldest first."""
        return _steps(self._core)

    def reverse(self, what: None | int | str | Step | Sequence[Any] = None, *, dependents: str = "reapply",
                discard_changes: bool = False, base: str | os.PathLike[str] = "") -> Model:
        """Takes steps back: a step or its id, a transformation's name, a pattern as of ``apply``, or a list of these.

        None stands for all.

        Steps that were built on them are applied again, where ``dependents`` is "reapply"; one that cannot
        be, since its rule is not loaded or does not match any more, is dropped with a warning.
        ``base`` has the originals that were detached, see ``attach``; those alone that are needed come back.
        """
        steps = None if what is None else [_step(one) for one in _flat([what])]
        with self._changing() as core:  # all of it or nothing
            dropped = core.reverse(steps, dependents, discard_changes, os.fspath(base))
        warn_of_dropped(dropped, stacklevel=3)
        return self

    def redo(self) -> bool:
        """Brings the last reversed step back."""
        with self._changing() as core:
            return core.redo()

    def forget(self) -> None:
        """Drops the history and the originals that it keeps."""
        with self._changing() as core:
            core.forget()

    def detach(self) -> list[DetachedTensor]:
        """Takes the originals that the history keeps out of the model, and of the file that ``save`` writes.

        Their names, lengths, dtypes and hashes stay. A step whose originals are gone is reversed with
        ``base``, or after ``attach``. What costs nothing stays: parts of tensors that the model has.
        """
        with self._changing() as core:
            return [DetachedTensor.of(*tensor) for tensor in core.detach()]

    def detached(self) -> list[DetachedTensor]:
        """The originals that the model is without."""
        return [DetachedTensor.of(*tensor) for tensor in self._core.detached()]

    def attach(self, base: str | os.PathLike[str]) -> Model:
        """Brings detached originals back from the file that was transformed, or a .safetensors file, or a folder of these.

        One that is not what it was is refused by its name, and nothing is changed.
        """
        with self._changing() as core:
            core.attach(os.fspath(base))
        return self

    def original(self) -> Model:
        """The model before its first step."""
        return Model(self._core.original(), self._folder, self._allow_ops)

    def copy(self) -> Model:
        """Another model, with a history of its own and the same tensors."""
        return Model(self._core.copy(), self._folder, self._allow_ops)

    @_of_its_file
    def diff(self, other: Model | None = None) -> str:
        """What differs from another model, or from this one's original to it; empty: nothing."""
        if other is None:
            return _Text(self.original()._core.diff(self._core))
        return _Text(self._core.diff(other._core))

    @_of_its_file
    def verify(self, against: Model | None = None, *, inputs: Any = None, steps: int = 0, per_step: bool = False,
               power: bool = False, tolerance: float = 0, budget: float = 0, by_error: bool = False,
               batch: int = 0, threads: int | None = None, seed: int = 0, progress: Progress | None = None) -> Verification:
        """Whether the model still computes what its original, or another model, does.

        Both forms run in fp64 and in their own dtype. ``power`` says for each step how small a wrong
        in what it made would be noticed; ``tolerance`` is a largest relative error instead of what
        rounding explains; ``budget`` is the largest relative L2 error that lossy steps may make, and
        with ``by_error`` the steps that cost most come first. ``inputs`` is ``(args, kwargs)`` or args
        alone, or a list of such sets (of calls, for a model that keeps state); without it the file's sample
        inputs and generated ones are used, or
        generated ones with ``batch`` as the size of a dynamic first dimension. ``steps`` is how many calls
        follow the first, on the state that the model keeps (docs/lab.md, "Sequences of calls"): each is
        judged. It runs on one thread, unless told otherwise.
        """
        return Verification.of(self._core.verify(
            _core_of(against), inputs=inputs, steps=steps, per_step=per_step, power=power, tolerance=tolerance,
            budget=budget, by_error=by_error, batch=batch, threads=threads, seed=seed, progress=callback(progress)))

    @_of_its_file
    def sensitivity(self, *transformations: Any, only: str | Iterable[str] | None = None, exclude: str | Iterable[str] = (),
                    inputs: Any = None, steps: int = 0, reversed: bool = False, batch: int = 0,
                    threads: int | None = None, seed: int = 0, progress: Progress | None = None) -> Sensitivity:
        """Which layers suffer most from lossy rewrites: the error that each makes by itself, by one run each.

        Of the lossy steps that the model has, and of what ``transformations`` would do besides, on a
        copy; with ``reversed`` also of steps that were taken back. ``only`` and ``exclude`` are those of
        ``apply``. ``inputs`` is ``(args, kwargs)`` or
        args alone, or a list of such calls; without it the file's sample inputs or generated ones are used.
        ``steps`` is how many calls follow the first, on the state that the model keeps.
        """
        return Sensitivity.of(self._core.sensitivity(
            _names(transformations), only=_only(only), exclude=_list(exclude), inputs=inputs, steps=steps,
            reversed=reversed, batch=batch, threads=threads, seed=seed, progress=callback(progress)))

    @_of_its_file
    def bench(self, against: Model | None = None, *, inputs: Any = None, steps: int = 0, batch: int = 0,
              threads: int | None = None, device: str = "", cuda_graph: bool = False,
              per_step: bool = False, rounds: int = 10, seconds: float = 3, seed: int = 0,
              progress: Progress | None = None) -> Benchmark:
        """Measures the model against its original, or another one, in turns.

        ``inputs`` is ``(args, kwargs)`` or args alone, or a list of such calls; without it the file's
        sample inputs or generated ones are used, with ``batch`` as the size of a dynamic first dimension.
        ``steps`` is how many calls follow the first, on the state that the model keeps: those are timed.
        """
        return Benchmark.of(self._core.bench(
            _core_of(against), inputs=inputs, steps=steps, batch=batch, threads=threads, device=device,
            cuda_graph=cuda_graph, per_step=per_step, rounds=rounds, seconds=seconds, seed=seed,
            progress=callback(progress)))

    @_of_its_file
    def tune(self, *transformations: Any, only: str | Iterable[str] | None = None, exclude: str | Iterable[str] = (),
             inputs: Any = None, steps: int = 0, batch: int = 0, threads: int | None = None,
             device: str = "", seconds: float = 3, seed: int = 0,
             budget: float = 0, metric: Callable[[Model], float | bool] | None = None,
             prefer: str = "speed", record: str | os.PathLike[str] = "",
             known: Iterable[str | os.PathLike[str]] = (),
             progress: Progress | None = None) -> Tuning:
        """Keeps the rewrites that pay on this machine and these inputs, and reverses the others.

        ``only`` and ``exclude`` are those of ``apply``: other sites and steps stay as they are.
        ``budget`` is the largest relative L2 error that lossy rewrites may make; with a ``metric``, a
        function of a model, the largest number that it may give. Without a budget the metric says by
        True or False whether a model will do. ``prefer`` is "speed" or "size". ``inputs`` is
        ``(args, kwargs)`` or args alone, or a list of such sets, as ``--inputs`` is repeated: what is chosen on
        some is proven on the others (a third of all sets), or on generated ones. For a model that keeps state
        a list is a sequence of calls, and a list of lists are sets.
        ``steps`` is how many calls follow the first, on the state that the model keeps: what is fastest
        there is chosen. ``record`` is a file to which every trial is added, ``known`` are files of trials that need
        not be made again.
        """
        if prefer not in ("speed", "size"):
            raise ValueError(f'prefer is "speed" or "size", not {prefer!r}')
        with self._changing() as core:
            return Tuning.of(core.tune(
                _names(transformations), only=_only(only), exclude=_list(exclude), inputs=inputs, steps=steps,
                batch=batch, threads=threads, device=device, seconds=seconds, seed=seed, budget=0 if metric else budget,
                ask=self._asked(metric, budget), smaller=prefer == "size",
                record=os.fspath(record), known=[os.fspath(path) for path in known],
                progress=callback(progress)))

    def _asked(self, metric: Callable[[Model], float | bool] | None,
               budget: float) -> Callable[[Any], tuple[bool, float | None]] | None:
        if metric is None:
            return None

        def ask(core: Any) -> tuple[bool, float | None]:
            said = metric(Model(core, self._folder))
            if budget:
                return float(said) <= budget, float(said)
            return bool(said), None

        return ask

    @_of_its_file
    def bisect(self, check: Callable[[Model], bool | None] | float | str, *, inputs: Any = None,
               steps: int = 0, seed: int = 0, journal: str | os.PathLike[str] = "",
               progress: Progress | None = None) -> Bisection:
        """The smallest sets of steps that make a check fail.

        The check is a function of a model that returns True (good), False (bad) or None (cannot
        say); or a number, the largest relative error; or a command of the shell with {} for the path
        of a file, whose exit code is 0 (good), 125 (cannot say) or 1 to 124 (bad). ``inputs`` and ``steps``
        are those of ``verify``, for a number. With ``journal``,
        a search that is cut short goes on where it was.
        """
        path, told = os.fspath(journal), callback(progress)
        if isinstance(check, str):
            result = self._core.bisect_by_command(check, path, told)
        elif callable(check):
            judge = check
            result = self._core.bisect(lambda core: judge(Model(core, self._folder)), path,
                                       getattr(check, "__qualname__", ""), told)
        else:
            result = self._core.bisect_within(float(check), path, inputs=inputs, steps=steps, seed=seed,
                                              progress=told)
        return Bisection.of(result, self.log())

    def report(self, path: None | str | os.PathLike[str] = None, *, title: str = "",
               verify: bool = True, bench: bool = True, per_step: bool = False, inputs: Any = None,
               threads: int | None = None, seconds: float = 3, seed: int = 0,
               progress: Progress | None = None) -> Report:
        """A page about the model, its steps and what they do, written to ``path`` if it is given.

        A notebook shows it inline.
        """
        page = Report(self._core.report(
            title=title, verify=verify, bench=bench, per_step=per_step, inputs=inputs, threads=threads,
            seconds=seconds, seed=seed, progress=callback(progress)))
        self._core.require_unchanged()
        if path is not None:
            self._core.write_report(os.fspath(path), page)
        return page

    @_of_its_file
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model, without autograd, on what the exported module took.

        Arguments may be containers that are registered with ``torch.utils._pytree``, such as the
        caches of transformers; what the exported module returned as one comes back as one, where
        its class is registered.

        State that the model writes (caches, counters) belongs to its runs: each goes on where the last one ended, and
        the tensors of the model, which ``save`` writes, stay as they are. See
        ``run_state`` and ``reset_state``. A rewrite starts anew.

        Threads may call it at the same time: calls run in parallel, and those of a model that writes state
        one after the other.
        """
        core, executor = self._ready()
        return _nested_as(core.output_spec(), core.run(executor, args, kwargs))

    __call__ = forward

    def _ready(self) -> tuple[Any, Any]:
        """The model as it is now, and its executor: one for all threads, because state belongs to it."""
        with self._executor_lock:
            core = self._core
            if self._executor is None or self._executor.revision() != core.revision():
                self._executor = _core.Executor(core)
            return core, self._executor

    @_of_its_file
    def run_state(self) -> dict[str, torch.Tensor]:
        """The state that runs of the model may write, by name, as the last run left it.

        The next run writes into these tensors; whoever writes into them sets the state.
        """
        return dict(self._ready()[1].state())

    def reset_state(self) -> None:
        """The next run starts from the state that the model has."""
        self._ready()[1].reset_state()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file that ``torch.export.load`` reads, with the history inside it."""
        self._core.save(os.fspath(path))

    def to_exported(self) -> torch.export.ExportedProgram:
        """The model as it is now, as an ExportedProgram."""
        folder = _folder(self.state_dict().values())
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
                           [[str(step.id), step.transformation, step.site] for step in self.log()])
        return (f"<p><b>refx.Model</b>: {nodes} nodes, {tensors} tensors</p>{steps}"
                f"<details><summary>graph</summary><pre>{html.escape(self._core.text())}</pre></details>")


# What a run returns by itself.
_PLAIN = ("builtins.tuple", "builtins.list", "builtins.dict")


def _classes(part: Any) -> Iterator[str]:
    """The names of the classes in a treespec, but for tuples, lists and dicts."""
    if part["type"] is not None:
        if part["type"] not in _PLAIN:
            yield part["type"]
        for child in part["children_spec"]:
            yield from _classes(child)


@functools.lru_cache(maxsize=64)
def _tree(spec: str) -> pytree.TreeSpec | None:
    """How an output is nested, if it has other classes than tuples, lists and dicts.

    LookupError where such a class is not registered here. Values of enums are left alone: torch would
    import what the file names.
    """
    if not spec or "__enum__" in spec:
        return None
    classes = list(_classes(json.loads(spec)[1]))
    for name in classes:
        if name not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
            _import_transformers(name)
        if name not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
            raise LookupError(name)
    return pytree.treespec_loads(spec) if classes else None


def _import_transformers(name: str) -> None:
    """Imports the module of a class of transformers, which registers it then, if transformers is in use here.

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


def _nested_as(spec: str, output: Any) -> Any:
    """The output with the classes that the exported module returned, where they are registered."""
    try:
        tree = _tree(spec)
    except LookupError as missing:
        _warn_unregistered(missing.args[0])
        return output
    except (NotImplementedError, TypeError, ValueError):
        return output
    return output if tree is None else pytree.tree_unflatten(pytree.tree_leaves(output), tree)


def _namespaces(program: torch.export.ExportedProgram) -> set[str]:
    """Of the operators that a program calls."""
    return {node.target.namespace for module in program.graph_module.modules()
            if isinstance(module, torch.fx.GraphModule) for node in module.graph.nodes
            if isinstance(node.target, torch._ops.OpOverload)}


def _through_file(program: torch.export.ExportedProgram, allow_ops: list[str]) -> Model:
    folder = _folder([*program.state_dict.values(), *program.constants.values()])
    path = os.path.join(folder.name, "model.pt2")
    torch.export.save(program, path)
    return Model(_core.load(path, True, allow_ops), folder, allow_ops)


def load(path: str | os.PathLike[str], *, history: bool = True,
         allow_ops: str | Iterable[str] = ()) -> Model:
    """Reads what ``torch.export.save`` or ``Model.save`` wrote, without running any pickle.

    When the model runs, it may call the operators of aten that are in a table of those tried with
    hostile arguments, and those that ``allow_ops`` names: ``"mylib"`` (all of that namespace) or
    ``"aten.from_file"``.
    """
    return Model(_core.load(os.fspath(path), history, _list(allow_ops)), None, _list(allow_ops))


def from_exported(program: torch.export.ExportedProgram, *,
                  allow_ops: str | Iterable[str] = ()) -> Model:
    """An ExportedProgram as a Model. It may call operators of the namespaces that the program uses."""
    if not isinstance(program, torch.export.ExportedProgram):
        raise TypeError(f"from_exported takes what torch.export.export returns, not a {type(program).__name__}; "
                        "refx.export(module, args) does both")
    return _through_file(program, [*_list(allow_ops), *sorted(_namespaces(program))])


def export(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
           **options: Any) -> Model:
    """``torch.export.export`` and ``from_exported`` in one."""
    return from_exported(torch.export.export(module, args, kwargs, **options))
