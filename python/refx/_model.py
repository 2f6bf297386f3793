"""Exported programs (``torch.export``) and their history."""

from __future__ import annotations

import dataclasses
import functools
import html
import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import torch

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
from ._step import Step


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
    if not isinstance(name, str):
        raise _core.Error(f"{transformation!r} is not a transformation of the library")
    return name


def _names(transformations: Iterable[Any]) -> list[str]:
    """As the program takes them: "all" is every one that does not change results."""
    return _core.find_transformations([_name(transformation) for transformation in transformations])


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
    """An exported program, and the history of its rewrites. See ``load`` and ``from_exported``."""

    def __init__(self, core: _core.Model, folder: _Folder | None = None):
        self._core = core
        self._folder = folder  # of the file behind it, where that is temporary

    @property
    def graph(self) -> str:
        """The text form of the graph, its tensors and modules."""
        return _Text(self._core.text())

    @_of_its_file
    def state_dict(self) -> dict[str, torch.Tensor]:
        """Parameters and persistent buffers by name. The tensors are the model's own."""
        return {name: tensor for name, tensor, kind, persistent in self._core.state()
                if persistent and kind != "constant"}

    def sites(self, *transformations: Any) -> list[Site]:
        """Where these transformations (none: all) apply."""
        return [site for site in self._findings(transformations) if site.refused is None]

    def refusals(self, *transformations: Any) -> list[Site]:
        """Where these transformations (none: all) do not apply although it looks so, and why."""
        return [site for site in self._findings(transformations) if site.refused is not None]

    def _findings(self, transformations: tuple[Any, ...]) -> Iterable[Site]:
        names = _names(transformations) or [n for n, _ in _core.transformations()]
        for name in names:
            sites, refusals = self._core.find(name)
            yield from (Site(name, site) for site in sites)
            yield from (Site(name, site, reason) for site, reason in refusals)

    def apply(self, *transformations: Any, only: str | Iterable[str] = (),
              exclude: str | Iterable[str] = ()) -> list[Step]:
        """Applies transformations, by name or class, at the sites that the patterns choose.

        ``"all"`` stands for every one that does not change results.
        """
        names = _names(transformations)
        trial = self._core.copy()  # all of them or none
        ids = [i for name in names for i in trial.apply(name, _list(only), _list(exclude))]
        for why in trial.unmatched(names, _list(only)):
            raise _core.Error(f"only={why}" if why.endswith("?") else f"only={why}; `sites()` lists them")
        for why in trial.unmatched(names, _list(exclude)):
            warnings.warn(f"exclude={why}", stacklevel=2)
        self._core = trial
        return [step for step in self.log() if step.id in set(ids)]

    def log(self) -> list[Step]:
        """The steps that were applied and can be taken back, oldest first."""
        return [Step(i, transformation, site, tuple(nodes), size, signature)
                for i, transformation, site, nodes, size, signature in self._core.steps()]

    def reverse(self, what: None | int | str | Step = None, *, dependents: str = "reapply",
                discard_changes: bool = False, base: str | os.PathLike[str] = "") -> Model:
        """Takes steps back: a step or its id, a transformation's name, a site pattern; None: all.

        ``base`` has the originals that were detached, see ``attach``; those alone that are needed come back.
        """
        if what is not None:
            what = str(what.id if isinstance(what, Step) else _name(what) if not isinstance(what, int) else what)
        core = self._core.copy() if base else self._core  # all of it or nothing
        core.reverse(what, dependents, discard_changes, os.fspath(base))
        self._core = core
        return self

    def redo(self) -> bool:
        """Brings the last reversed step back."""
        return self._core.redo()

    def forget(self) -> None:
        """Drops the history and the originals that it keeps."""
        self._core.forget()

    def detach(self) -> list[DetachedTensor]:
        """Takes the originals that the history keeps out of the model, and of the file that ``save`` writes.

        Their names, lengths, dtypes and hashes stay. A step whose originals are gone is reversed with
        ``base``, or after ``attach``. What costs nothing stays: parts of tensors that the model has.
        """
        return [DetachedTensor.of(*tensor) for tensor in self._core.detach()]

    def detached(self) -> list[DetachedTensor]:
        """The originals that the model is without."""
        return [DetachedTensor.of(*tensor) for tensor in self._core.detached()]

    def attach(self, base: str | os.PathLike[str]) -> Model:
        """Brings detached originals back from the file that was transformed, or a .safetensors file, or a folder of these.

        One that is not what it was is refused by its name, and nothing is changed.
        """
        self._core.attach(os.fspath(base))
        return self

    def original(self) -> Model:
        """The model before its first step."""
        return Model(self._core.original(), self._folder)

    def copy(self) -> Model:
        """Another model, with a history of its own and the same tensors."""
        return Model(self._core.copy(), self._folder)

    @_of_its_file
    def diff(self, other: Model | None = None) -> str:
        """What differs from another model, or from this one's original to it; empty: nothing."""
        if other is None:
            return _Text(self.original()._core.diff(self._core))
        return _Text(self._core.diff(other._core))

    @_of_its_file
    def verify(self, against: Model | None = None, *, inputs: Any = None, per_step: bool = False,
               power: bool = False, tolerance: float = 0, budget: float = 0, by_error: bool = False,
               batch: int = 0, threads: int | None = None, seed: int = 0, progress: Progress | None = None) -> Verification:
        """Whether the model still computes what its original, or another model, does.

        Both forms run in fp64 and in their own dtype. ``power`` says for each step how small a wrong
        in what it made would be noticed; ``tolerance`` is a largest relative error instead of what
        rounding explains; ``budget`` is the largest relative L2 error that lossy steps may make, and
        with ``by_error`` the steps that cost most come first. ``inputs`` is ``(args, kwargs)`` or args
        alone; without it the file's sample inputs and generated ones are used, or generated ones with
        ``batch`` as the size of a dynamic first dimension. It runs on one thread, unless told otherwise.
        """
        return Verification.of(self._core.verify(
            _core_of(against), inputs=inputs, per_step=per_step, power=power, tolerance=tolerance,
            budget=budget, by_error=by_error, batch=batch, threads=threads, seed=seed, progress=callback(progress)))

    @_of_its_file
    def sensitivity(self, *transformations: Any, inputs: Any = None, reversed: bool = False, batch: int = 0,
                    threads: int | None = None, seed: int = 0, progress: Progress | None = None) -> Sensitivity:
        """Which layers suffer most from lossy rewrites: the error that each makes by itself, by one run each.

        Of the lossy steps that the model has, and of what ``transformations`` would do besides, on a
        copy; with ``reversed`` also of steps that were taken back. ``inputs`` is ``(args, kwargs)`` or
        args alone; without it the file's sample inputs or generated ones are used.
        """
        return Sensitivity.of(self._core.sensitivity(
            _names(transformations), inputs=inputs, reversed=reversed, batch=batch, threads=threads,
            seed=seed, progress=callback(progress)))

    @_of_its_file
    def bench(self, against: Model | None = None, *, inputs: Any = None, batch: int = 0,
              threads: int | None = None, device: str = "", cuda_graph: bool = False,
              per_step: bool = False, rounds: int = 10, seconds: float = 3, seed: int = 0,
              progress: Progress | None = None) -> Benchmark:
        """Measures the model against its original, or another one, in turns.

        ``inputs`` is ``(args, kwargs)`` or args alone; without it the file's sample inputs or
        generated ones are used, with ``batch`` as the size of a dynamic first dimension.
        """
        return Benchmark.of(self._core.bench(
            _core_of(against), inputs=inputs, batch=batch, threads=threads, device=device,
            cuda_graph=cuda_graph, per_step=per_step, rounds=rounds, seconds=seconds, seed=seed,
            progress=callback(progress)))

    @_of_its_file
    def tune(self, *transformations: Any, inputs: Any = None, batch: int = 0,
             threads: int | None = None, device: str = "", seconds: float = 3, seed: int = 0,
             budget: float = 0, metric: Callable[[Model], float | bool] | None = None,
             prefer: str = "speed", more_inputs: Iterable[Any] = (),
             record: str | os.PathLike[str] = "",
             known: Iterable[str | os.PathLike[str]] = (),
             progress: Progress | None = None) -> Tuning:
        """Keeps the rewrites that pay on this machine and these inputs, and reverses the others.

        ``budget`` is the largest relative L2 error that lossy rewrites may make; with a ``metric``, a
        function of a model, the largest number that it may give. Without a budget the metric says by
        True or False whether a model will do. ``prefer`` is "speed" or "size". What is chosen on
        ``inputs`` is proven on ``more_inputs`` (a third of all sets), or on generated ones.
        ``record`` is a file to which every trial is added, ``known`` are files of trials that need
        not be made again.
        """
        if prefer not in ("speed", "size"):
            raise ValueError(f'prefer is "speed" or "size", not {prefer!r}')
        return Tuning.of(self._core.tune(
            _names(transformations), inputs=inputs, batch=batch, threads=threads,
            device=device, seconds=seconds, seed=seed, budget=0 if metric else budget,
            ask=self._asked(metric, budget), smaller=prefer == "size", more_inputs=list(more_inputs),
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
               seed: int = 0, journal: str | os.PathLike[str] = "",
               progress: Progress | None = None) -> Bisection:
        """The smallest sets of steps that make a check fail.

        The check is a function of a model that returns True (good), False (bad) or None (cannot
        say); or a number, the largest relative error; or a command of the shell with {} for the path
        of a file, whose exit code is 0 (good), 125 (cannot say) or 1 to 124 (bad). With ``journal``,
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
            result = self._core.bisect_within(float(check), path, inputs=inputs, seed=seed, progress=told)
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
        """Runs the model, without autograd, on what the exported module took."""
        return self._core.run(args, kwargs)

    __call__ = forward

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
        rows = "".join(
            f"<tr><td>{s.id}</td><td>{html.escape(s.transformation)}</td><td>{html.escape(s.site)}</td></tr>"
            for s in self.log())
        return (f"<p><b>refx.Model</b>: {nodes} nodes, {tensors} tensors</p><table><thead><tr><th>step</th>"
                f"<th>transformation</th><th>site</th></tr></thead><tbody>{rows}</tbody></table>"
                f"<details><summary>graph</summary><pre>{html.escape(self._core.text())}</pre></details>")


def _namespaces(program: torch.export.ExportedProgram) -> set[str]:
    """Of the operators that a program calls."""
    return {node.target.namespace for module in program.graph_module.modules()
            if isinstance(module, torch.fx.GraphModule) for node in module.graph.nodes
            if isinstance(node.target, torch._ops.OpOverload)}


def load(path: str | os.PathLike[str], *, history: bool = True,
         allow_ops: str | Iterable[str] = ()) -> Model:
    """Reads what ``torch.export.save`` or ``Model.save`` wrote, without running any pickle.

    When the model runs, it may call operators of aten and prims that neither touch files nor take
    memory on trust, and those that ``allow_ops`` names: ``"mylib"`` (all of that namespace) or
    ``"aten.from_file"``.
    """
    return Model(_core.load(os.fspath(path), history, _list(allow_ops)))


def from_exported(program: torch.export.ExportedProgram, *,
                  allow_ops: str | Iterable[str] = ()) -> Model:
    """An ExportedProgram as a Model. It may call operators of the namespaces that the program uses."""
    if not isinstance(program, torch.export.ExportedProgram):
        raise TypeError(f"from_exported takes what torch.export.export returns, not a {type(program).__name__}; "
                        "refx.export(module, args) does both")
    folder = _folder([*program.state_dict.values(), *program.constants.values()])
    path = os.path.join(folder.name, "model.pt2")
    torch.export.save(program, path)
    return Model(_core.load(path, True, [*_list(allow_ops), *sorted(_namespaces(program))]), folder)


def export(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
           **options: Any) -> Model:
    """``torch.export.export`` and ``from_exported`` in one."""
    return from_exported(torch.export.export(module, args, kwargs, **options))
