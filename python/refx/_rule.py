# SPDX-License-Identifier: Apache-2.0
"""Declarative rewrite rules, as text or as a Python class.

A class is traced and printed as the text of a rule. The library reads only the text.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import operator
import os
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType, FunctionType, UnionType
from typing import Annotated

import torch
from torch.fx import Graph, Node, Proxy, Tracer

from . import _core
from .fx._functions import name_of


class _Kind(str):
    """The kind of a variable of a rule, by its word in the rule language."""


Weight = Annotated[torch.Tensor, _Kind("weight")]  # a parameter, a buffer or a constant of the model
Factor = Annotated[float, _Kind("factor")]  # a number that is multiplied by; x / 8 has the factor 1/8
Any = Annotated[typing.Any, _Kind("any")]  # any argument, such as a list of sizes

_KINDS: dict[object, str] = {inspect.Parameter.empty: "", torch.Tensor: "", float: "float", int: "int",
                             bool: "bool", torch.dtype: "dtype"}


@dataclasses.dataclass(frozen=True)
class Matched:
    """A tensor that a variable of a rule matched in a model."""

    name: str  # of the node, or of the weight in the state dict
    shape: tuple[int | str, ...] | None  # "s0" where it is dynamic; None where nothing is known
    dtype: torch.dtype | None
    tensor: torch.Tensor | None = dataclasses.field(repr=False)  # of a weight: its values


Check = Callable[[dict[str, typing.Any]], str | None]


class Rule:
    """A declarative rewrite rule. See ``rule`` and ``rules``."""

    def __init__(self, core: _core.Rule, check: Check | None = None) -> None:
        self._core = core
        self._check = check
        self.__qualname__ = core.name
        if check is not None:
            core.set_check(_call_check(check, f"{core.name}: check"))
        self.__doc__ = core.summary
        self._register()

    @property
    def name(self) -> str:
        """The name of the rule."""
        return self._core.name

    @property
    def summary(self) -> str:
        """One line that says what the rule does."""
        return self._core.summary

    @property
    def text(self) -> str:
        """The rule in the rule language."""
        return self._core.text

    @property
    def preserves_computation(self) -> bool:
        """Whether results stay the same up to rounding."""
        return self._core.preserves_computation

    @property
    def _name(self) -> str:
        """The registered name. The rule is registered again if another rule has taken its name."""
        if _registered.get(self.name) is not self:
            self._register()
        return self.name

    def _register(self) -> None:
        self._core.register()
        _registered[self.name] = self

    def __reduce__(self) -> str | tuple[typing.Any, ...]:
        # A check is a function, which pickle finds by its name: so is a rule that has one.
        return self.__qualname__ if self._check is not None else (one, (self.text,))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<rule {self.name}>"


_registered: dict[str, Rule] = {}  # who has a name now


def rules(source: str | os.PathLike[str]) -> list[Rule]:
    """Reads rules.

    Args:
        source: the path of a file, or a text of several lines.
    """
    if isinstance(source, str) and "\n" in source:
        found = _core.parse_rules(source)
    else:
        found = _core.load_rules(os.fspath(source))
    return [Rule(core) for core in found]


def one(text: str) -> Rule:
    """The rule in a text that has exactly one."""
    found = rules(text)
    if len(found) != 1:
        raise _core.Error(f"expected one rule, found {len(found)}")
    return found[0]


def rule(cls: type) -> Rule:
    """Makes a rule of a class of small functions, which are traced by torch.fx.

        @refx.rule
        class MergeLora:
            "linear + low-rank branch -> linear with a merged weight"
            def before(x, W: refx.Weight, A: refx.Weight, B: refx.Weight, s: float):
                return F.linear(x, W) + F.linear(F.linear(x, A), B) * s
            def once(W, A, B, s): return {"M": W + s * (B @ A)}
            def after(x, M): return F.linear(x, M)

    The class may have:

    - ``before``: the pattern, or a list of functions for several forms of it. Its arguments are the variables of the
      rule: tensors, or what the annotation says (``refx.Weight``, ``float``, ``refx.Factor``, ``int``, ``bool``,
      ``torch.dtype``, ``refx.Any``). A variable with a default value may be absent in a model.
    - ``once``: computes new weights when the model is rewritten. Its arguments are variables, by name.
    - ``after``: the replacement.
    - ``where``: conditions as a string, such as ``"rank(x) == 2; floating(x)"``.
    - ``approximate = True``: results may differ by more than rounding.
    - ``check``: takes the matched variables as a dict, with a ``Matched`` for every tensor, and returns None, or the
      reason why the rule does not apply there.

    The name of the rule is derived from that of the class: ``merge-lora``.
    """
    parts = {name: part for name, part in vars(cls).items() if not name.startswith("__")}
    text = _text_of(cls, parts)
    try:
        (core,) = _core.parse_rules(text)
    except _core.Error as error:
        raise _core.Error(f"{cls.__qualname__}: {error}\n\n{text}") from None
    made = Rule(core, _function(cls, "check", parts["check"]) if "check" in parts else None)
    made.__module__, made.__qualname__ = cls.__module__, cls.__qualname__
    return made


def value_or(value: typing.Any, default: typing.Any) -> typing.Any:
    """In ``once`` and ``after``: a variable, or ``default`` where the model does without it."""
    if isinstance(value, Proxy):
        return value.tracer.create_proxy("call_function", value_or, (value, default), {})
    return default if value is None else value


either = value_or  # its former name


def _call_check(check: Check, name: str) -> Callable[[dict[str, tuple[bool, typing.Any]]], str]:
    def ask(variables: dict[str, tuple[bool, typing.Any]]) -> str:
        reason = check({name: Matched(*value) if tensor else value
                        for name, (tensor, value) in variables.items()})
        if reason is not None and not isinstance(reason, str):
            raise _core.Error(f"{name} returns None or a reason, not {reason!r}")
        return reason or ""

    return ask


# ---- from a class to a text ----------------------------------------------------------------------


def _text_of(cls: type, parts: Mapping[str, typing.Any]) -> str:
    name = cls.__qualname__
    for part in ("before", "after"):
        if part not in parts:
            raise _core.Error(f"{name} has no function '{part}'")
    before = parts["before"] if isinstance(parts["before"], (list, tuple)) else [parts["before"]]
    known = ("before", "once", "after", "check", "where", "approximate")
    for part, value in parts.items():
        if part not in known and not any(value is form for form in before):
            raise _core.Error(f"{name}: a rule has no '{part}', only {', '.join(known)}")
    forms = [_function(cls, "before", form) for form in before]
    variables = _variables(cls, forms)
    summary = (inspect.getdoc(cls) or "").partition("\n")[0].strip()
    approximate = "  approximate" if parts.get("approximate") else ""
    lines = [f"rule {_kebab(cls.__name__)}{f'  {json.dumps(summary, ensure_ascii=False)}' if summary else ''}{approximate}"]
    taken = {*variables, "rule", "before", "once", "after", "where", "or", "return"}
    for form in forms:
        lines.append("or:" if len(lines) > 1 else f"before({', '.join(variables.values())}):")
        lines += _return_lines(_trace(cls, form), taken)
    if "once" in parts:
        traced = _trace(cls, _function(cls, "once", parts["once"]))
        results = traced.result
        if not isinstance(results, dict):
            raise _core.Error(f"{traced.name} returns a dict of what it computes, by name")
        taken |= set(results)
        printer = _Printer(traced, taken, {v: k for k, v in results.items() if isinstance(v, Node)})
        computed = [f"{key} = {printer.shown(value)}" for key, value in results.items()
                    if not (isinstance(value, Node) and printer.names.get(value) == key)]
        lines += ["once:", *_indented([*printer.lines, *computed])]
        taken |= set(printer.names.values())
    lines += ["after:", *_return_lines(_trace(cls, _function(cls, "after", parts["after"])), taken)]
    if "where" in parts:
        lines += ["where:", *_indented(line.strip() for line in parts["where"].splitlines() if line.strip())]
    return "\n".join(lines) + "\n"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _kebab(name: str) -> str:
    """As the library writes names: FuseBatchNorm2d is fuse-batch-norm-2d."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[a-z])(?=[0-9])|_", "-", name).lower()


def _function(cls: type, part: str, value: typing.Any) -> FunctionType:
    function = getattr(value, "__func__", value)  # of a staticmethod
    if not isinstance(function, FunctionType):
        raise _core.Error(f"{cls.__qualname__}.{part} is no function: {value!r}")
    return function


def _variables(cls: type, forms: list[FunctionType]) -> dict[str, str]:
    """How each is declared."""
    variables: dict[str, str] = {}
    for form in forms:
        name = f"{cls.__qualname__}.{form.__name__}"
        try:
            signature = inspect.signature(form, eval_str=True)
        except NameError as error:
            raise _core.Error(f"{name}: {error}") from None
        for parameter in signature.parameters.values():
            declared = _declaration(name, parameter)
            if variables.setdefault(parameter.name, declared) != declared:
                raise _core.Error(f"{name} takes '{declared}', which another form of 'before' takes as "
                                  f"'{variables[parameter.name]}'")
    return variables


def _declaration(function: str, parameter: inspect.Parameter) -> str:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise _core.Error(f"{function} takes '*{parameter.name}'; a rule has a fixed number of variables")
    annotation = parameter.annotation
    if typing.get_origin(annotation) in (typing.Union, UnionType):  # refx.Weight | None
        others = [one for one in typing.get_args(annotation) if one is not type(None)]
        annotation = others[0] if len(others) == 1 else annotation
    metadata = getattr(annotation, "__metadata__", ())
    kind: str | None = metadata[0] if metadata and isinstance(metadata[0], _Kind) else None
    if kind is None:
        try:
            kind = _KINDS[annotation]
        except (KeyError, TypeError):
            raise _core.Error(
                f"{function}: '{parameter.name}' cannot be a {annotation!r}; annotations are torch.Tensor "
                "(or none), refx.Weight, float, refx.Factor, int, bool, torch.dtype, refx.Any") from None
    declared = f"{parameter.name}: {kind}" if kind else parameter.name
    if parameter.default is parameter.empty:
        return declared
    return f"{declared} = {_Printer.literal(function, parameter.default)[0]}"


# ---- from a function to lines --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Traced:
    name: str  # of the function
    graph: Graph
    result: typing.Any
    named: dict[Node, str]  # the function's own names for its values


def _trace(cls: type, function: FunctionType) -> _Traced:
    name = f"{cls.__qualname__}.{function.__name__}"
    named: dict[Node, str] = {}

    def note_names(frame: FrameType, event: str, arg: object) -> None:
        if event == "return" and frame.f_code is function.__code__:
            named.update((value.node, key) for key, value in frame.f_locals.items()
                         if isinstance(value, Proxy))

    profiler = sys.getprofile()
    sys.setprofile(note_names)
    try:
        graph = Tracer().trace(function)
    except _core.Error:
        raise
    except Exception as error:
        raise _core.Error(f"{name} cannot be traced: {error}") from error
    finally:
        sys.setprofile(profiler)
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    return _Traced(name, graph, output.args[0], named)


def _return_lines(traced: _Traced, taken: set[str]) -> list[str]:
    printer = _Printer(traced, taken, {})
    results = traced.result if isinstance(traced.result, (list, tuple)) else [traced.result]
    shown = ", ".join(printer.shown(result) for result in results)
    return _indented([*printer.lines, f"return {shown}"])


# How tightly an expression holds together.
_COMPARISON, _SUM, _PRODUCT, _SIGN, _POWER, _WORD = range(6)
# The sign; what it makes, and what its sides have to be at least.
_INFIX = {
    operator.lt: ("<", _COMPARISON, _SUM, _SUM), operator.le: ("<=", _COMPARISON, _SUM, _SUM),
    operator.gt: (">", _COMPARISON, _SUM, _SUM), operator.ge: (">=", _COMPARISON, _SUM, _SUM),
    operator.eq: ("==", _COMPARISON, _SUM, _SUM), operator.ne: ("!=", _COMPARISON, _SUM, _SUM),
    operator.add: ("+", _SUM, _SUM, _PRODUCT), operator.sub: ("-", _SUM, _SUM, _PRODUCT),
    operator.mul: ("*", _PRODUCT, _PRODUCT, _SIGN), operator.truediv: ("/", _PRODUCT, _PRODUCT, _SIGN),
    operator.floordiv: ("//", _PRODUCT, _PRODUCT, _SIGN), operator.mod: ("%", _PRODUCT, _PRODUCT, _SIGN),
    operator.pow: ("**", _POWER, _WORD, _SIGN),
}
_FUNCTIONS = {operator.matmul: "aten.matmul", math.sqrt: "sqrt", value_or: "value_or",
              torch.is_floating_point: "floating"}
_METHODS = {"dim": "rank", "ndimension": "rank", "is_floating_point": "floating", "numel": "numel"}
_ATTRIBUTES: dict[str, tuple[str, tuple[int, ...]]] = {
    "ndim": ("rank", ()), "dtype": ("dtype", ()), "T": ("aten.t", ()), "mT": ("aten.transpose", (-2, -1))}


def _is_shape(node: object) -> bool:
    """x.shape or x.size(), which the language has no word for; it has one for each size."""
    if not isinstance(node, Node):
        return False
    attribute = node.op == "call_function" and node.target is getattr and node.args[1] == "shape"
    return attribute or (node.op == "call_method" and node.target == "size" and len(node.args) == 1
                         and not node.kwargs)


class _Printer:
    """The values of a traced function as expressions; those with a name, and those that are used more
    than once, as lines before them.
    """

    def __init__(self, traced: _Traced, taken: set[str], named: Mapping[Node, str]) -> None:
        self._traced = traced
        self.names: dict[Node, str] = {}
        self.lines: list[str] = []
        needed = set[Node]()
        for node in reversed(traced.graph.nodes):
            if node.op == "output" or node in needed:
                needed.update(node.all_input_nodes)
        returned = {traced.result} if isinstance(traced.result, Node) else set()
        used = set(taken)
        for node in traced.graph.nodes:
            if node.op == "placeholder":
                self.names[node] = str(node.target)
        for node in traced.graph.nodes:
            if node not in needed or node.op in ("placeholder", "output") or _is_shape(node):
                continue
            name = named.get(node)
            if name is None:
                own = traced.named.get(node) if node not in returned else None
                if own is None and len(node.users) < 2:
                    continue
                name = next(_free_names(own or node.name, used))
            line = self.shown(node)
            self.lines.append(f"{name} = {line}")
            self.names[node] = name
            used.add(name)

    def shown(self, value: typing.Any, at_least: int = _COMPARISON) -> str:
        text, tight = self._expression(value)
        return text if tight >= at_least else f"({text})"

    def _expression(self, value: typing.Any) -> tuple[str, int]:
        if not isinstance(value, Node):
            if isinstance(value, (list, tuple)):
                return f"[{', '.join(self.shown(item) for item in value)}]", _WORD
            return self.literal(self._traced.name, value)
        if value in self.names:
            return self.names[value], _WORD
        if value.op == "call_function":
            return self._function(value)
        if value.op == "call_method":
            method = str(value.target)
            if not _is_shape(value):
                known = "size" if method == "size" else _METHODS.get(method, f"torch.Tensor.{method}")
                return self._call(known, value.args, value.kwargs)
            self._fail("a shape as a whole has no word in a rule; ask for one size: x.shape[-1]")
        self._fail(f"'{value.target}' is a tensor or module of its own; a rule takes them as variables")

    def _function(self, node: Node) -> tuple[str, int]:
        function, args = typing.cast(Callable[..., typing.Any], node.target), node.args
        if function in _INFIX:
            sign, tight, left, right = _INFIX[function]
            return f"{self.shown(args[0], left)} {sign} {self.shown(args[1], right)}", tight
        if function is operator.neg:
            return f"-{self.shown(args[0], _SIGN)}", _SIGN
        if function is operator.getitem and _is_shape(args[0]):
            return self._call("size", (typing.cast(Node, args[0]).args[0], args[1]), {})
        if function is getattr:
            attribute = str(args[1])
            if attribute in _ATTRIBUTES:
                word, more = _ATTRIBUTES[attribute]
                return self._call(word, (args[0], *more), {})
            if attribute == "shape":
                self._fail("a shape as a whole has no word in a rule; ask for one size: x.shape[-1]")
            self._fail(f"'.{attribute}' of a tensor has no word in a rule")
        name = _FUNCTIONS.get(function)
        if name is None:
            short = getattr(function, "__name__", "")
            here = getattr(torch.nn.functional, short, None) is function
            name = f"torch.nn.functional.{short}" if here else name_of(function)
        return self._call(name, args, _without_defaults(function, node.kwargs))

    def _call(self, name: str, args: Iterable[typing.Any], kwargs: Mapping[str, typing.Any]) -> tuple[str, int]:
        shown = [self.shown(arg) for arg in args] + [f"{k}={self.shown(v)}" for k, v in kwargs.items()]
        return f"{name}({', '.join(shown)})", _WORD

    def _fail(self, problem: str) -> typing.NoReturn:
        raise _core.Error(f"{self._traced.name}: {problem}")

    @staticmethod
    def literal(function: str, value: typing.Any) -> tuple[str, int]:
        if isinstance(value, complex):
            return f"complex({value.real!r}, {value.imag!r})", _WORD
        if value is None or isinstance(value, (bool, str, torch.dtype, torch.memory_format, torch.layout,
                                               torch.device)):
            return repr(value), _WORD
        if isinstance(value, (int, float)):
            return repr(value), _SIGN if repr(value).startswith("-") else _WORD
        raise _core.Error(f"{function}: {value!r} has no spelling in a rule")


def _without_defaults(function: Callable[..., typing.Any],
                      kwargs: Mapping[str, typing.Any]) -> dict[str, typing.Any]:
    """Functions of torch.nn.functional, which are Python, tell torch.fx all that they have."""
    formal = inspect.signature(function).parameters if isinstance(function, FunctionType) else {}
    return {key: value for key, value in kwargs.items()
            if isinstance(value, Node) or key not in formal or value != formal[key].default}


def _free_names(name: str, taken: set[str]) -> Iterator[str]:
    if name not in taken:
        yield name
    yield from (f"{name}_{i}" for i in range(2, sys.maxsize) if f"{name}_{i}" not in taken)
