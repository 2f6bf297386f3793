from __future__ import annotations
import collections.abc
import torch
import typing
__all__: list[str] = ['ChangedObjects', 'Error', 'InternalError', 'Mirror', 'Model', 'Rule', 'Tables', 'attribute_at', 'code_source', 'explain', 'find_transformations', 'load', 'load_rules', 'operator_parts', 'parse_rules', 'passes_lint', 'preserves_computation', 'printable', 'transformations']
class InternalError(RuntimeError):
    ...
class Error(ValueError):
    ...
class Rule:
    """
    A rewrite that is written down.
    """
    def register(self) -> None:
        ...
    def set_check(self, check: collections.abc.Callable) -> None:
        """
        The check takes what the variables stand for, by name, and gives a reason or ''.
        """
    @property
    def name(self) -> str:
        ...
    @property
    def preserves_computation(self) -> bool:
        ...
    @property
    def summary(self) -> str:
        ...
    @property
    def text(self) -> str:
        ...
class Tables:
    """
    The Python objects behind a mirror.
    """
    copied_containers: dict
    displaced: dict
    erased: dict
    made_containers: set
    name_order: dict
    signatures: dict
    stamped: set
    def __init__(self) -> None:
        ...
    def add_function(self, name: str, function: typing.Any) -> None:
        ...
    def add_object(self, object: typing.Any) -> int:
        ...
    def find_function(self, name: str) -> typing.Any:
        ...
    def forget_erased(self, needed: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> None:
        """
        Lets go of erased nodes, except these.
        """
    def live_nodes(self, numbers: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> list:
        """
        Those of them that are in the graph.
        """
    def node(self, number: typing.SupportsInt | typing.SupportsIndex) -> typing.Any:
        """
        The node of that number, also one that was erased; or None.
        """
    @property
    def functions(self) -> dict:
        ...
    @property
    def objects(self) -> list:
        ...
class ChangedObjects:
    """
    The objects that a change of a mirror changed, for write().
    """
class Mirror:
    """
    What a torch.fx.GraphModule is to the library.
    """
    OTHERS: typing.ClassVar[str] = 'changes by others'
    @staticmethod
    def load(bytes: bytes, tensors: collections.abc.Sequence[torch.Tensor]) -> Mirror:
        ...
    @staticmethod
    def put_back_containers(tables: Tables, graph_module: typing.Any) -> None:
        ...
    def __init__(self) -> None:
        ...
    def apply(self, transformation: str, mark: str) -> tuple[list[int], ChangedObjects]:
        ...
    def attach(self, tables: Tables, graph_module: typing.Any, names: collections.abc.Sequence[str]) -> None:
        ...
    def bisect(self, judge: typing.Any, progress: typing.Any) -> tuple[str, str]:
        ...
    def changed_by_steps(self) -> tuple[list[int], list[str], list[str]]:
        ...
    def find(self, transformation: str) -> tuple:
        ...
    def has_steps(self) -> bool:
        ...
    def live(self) -> list[int]:
        ...
    def read(self, tables: Tables, graph_module: typing.Any, transformation: str = 'changes by others', signature: str = '') -> int | None:
        ...
    def reverse(self, steps: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], dependents: str, discard_changes: bool) -> ChangedObjects:
        ...
    def save(self) -> tuple[bytes, list[torch.Tensor]]:
        ...
    def select(self, what: str) -> list[int]:
        ...
    def slots(self) -> list[int]:
        ...
    def steps(self) -> list:
        ...
    def steps_of(self, signature: str) -> list[int]:
        ...
    def tensors(self) -> list[torch.Tensor]:
        ...
    def write(self, tables: Tables, graph_module: typing.Any, changed: ChangedObjects, hooks: bool) -> None:
        ...
    def write_all(self, tables: Tables, graph_module: typing.Any, changed: ChangedObjects) -> None:
        ...
class Model:
    """
    An exported program in the library.
    """
    @staticmethod
    def write_report(path: str, html: str) -> None:
        ...
    def apply(self, transformation: str, only: collections.abc.Sequence[str], exclude: collections.abc.Sequence[str]) -> list[int]:
        ...
    def attach(self, base: str) -> None:
        ...
    def bench(self, against: Model, **kwargs: typing.Any) -> tuple[str, str]:
        ...
    def bisect(self, judge: typing.Any, journal: str, key: str, progress: typing.Any) -> tuple[str, str]:
        ...
    def bisect_by_command(self, command: str, journal: str, progress: typing.Any) -> tuple[str, str]:
        ...
    def bisect_within(self, tolerance: typing.SupportsFloat | typing.SupportsIndex, journal: str, **kwargs: typing.Any) -> tuple[str, str]:
        ...
    def copy(self) -> Model:
        ...
    def counts(self) -> tuple[int, int, int]:
        ...
    def detach(self) -> list[tuple[str, str, int]]:
        ...
    def detached(self) -> list[tuple[str, str, int]]:
        ...
    def diff(self, other: Model) -> str:
        ...
    def find(self, transformation: str) -> tuple[list[str], list[tuple[str, str]]]:
        ...
    def forget(self) -> None:
        ...
    def original(self) -> Model:
        ...
    def redo(self) -> bool:
        ...
    def report(self, **kwargs: typing.Any) -> str:
        ...
    def require_unchanged(self) -> None:
        ...
    def reverse(self, what: str | None, dependents: str, discard_changes: bool, base: str) -> None:
        ...
    def run(self, args: typing.Any, kwargs: typing.Any) -> typing.Any:
        ...
    def save(self, path: str) -> None:
        ...
    def sensitivity(self, transformations: collections.abc.Sequence[str], **kwargs: typing.Any) -> tuple[str, str]:
        ...
    def state(self) -> list:
        ...
    def steps(self) -> list:
        ...
    def text(self) -> str:
        ...
    def tune(self, transformations: collections.abc.Sequence[str], **kwargs: typing.Any) -> tuple[str, str]:
        ...
    def unmatched(self, transformations: collections.abc.Sequence[str], patterns: collections.abc.Sequence[str]) -> list[str]:
        ...
    def verify(self, against: Model, **kwargs: typing.Any) -> tuple[str, str]:
        ...
def attribute_at(module: typing.Any, path: str) -> typing.Any:
    """
    What a get_attr node reads; None if it is not there.
    """
def code_source(graph: typing.Any) -> list:
    """
    Everything in a graph that its code is generated from, in one flat list.
    """
def explain(what: str) -> str:
    """
    What a transformation does, by its name; or what a refusal means, by its reason.
    """
def find_transformations(names: collections.abc.Sequence[str]) -> list[str]:
    """
    The names themselves, and for "all" those that it stands for.
    """
def load(path: str, history: bool, allow_ops: collections.abc.Sequence[str]) -> Model:
    ...
def load_rules(path: str) -> list[Rule]:
    ...
def operator_parts(target: str) -> tuple[str, str, str] | None:
    """
    Namespace, name and overload of an operator of the dispatcher; or None.
    """
def parse_rules(text: str) -> list[Rule]:
    ...
def passes_lint(graph: typing.Any) -> bool:
    """
    Whether Graph.lint would find nothing. False: ask it.
    """
def preserves_computation(name: str) -> bool:
    ...
def printable(name: str) -> str:
    """
    A name as it is shown to a person, its control characters as escapes.
    """
def transformations() -> list[tuple[str, str]]:
    """
    Name and summary of every transformation of the library.
    """
__version__: str = '0.1.0'
