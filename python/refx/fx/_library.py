# SPDX-License-Identifier: Apache-2.0
"""A class for every transformation that the library has.

The library's list is the only one: what is registered there is here, under the same name in CamelCase.
"""

from .. import _core
from . import _builtin


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _class(name: str, summary: str) -> type:
    # Of refx.fx, where users find it, and pickle too.
    return type(_class_name(name), (_builtin.BuiltIn,),
                {"__doc__": summary, "__module__": "refx.fx", "_name": name,
                 "preserves_computation": _core.preserves_computation(name)})


globals().update((_class_name(name), _class(name, summary)) for name, summary in _core.transformations())
__all__ = sorted(_class_name(name) for name, _ in _core.transformations())
