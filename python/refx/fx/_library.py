# SPDX-License-Identifier: Apache-2.0
"""A class for every transformation of the library.

The classes are generated from the registry of the library. Their names are the registered names in CamelCase.
"""

from .. import _core
from . import _builtin


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _class(name: str, summary: str) -> type:
    # In module refx.fx, where users and pickle find it.
    return type(_class_name(name), (_builtin.BuiltIn,),
                {"__doc__": summary, "__module__": "refx.fx", "_name": name,
                 "preserves_computation": _core.preserves_computation(name)})


globals().update((_class_name(name), _class(name, summary)) for name, summary in _core.transformations())
# Pickled GraphModules and scripts refer to classes by the names that these had.
OLD_CLASSES = {_class_name(old): globals()[_class_name(new)] for old, new in _core.old_names()}
__all__ = sorted(_class_name(name) for name, _ in _core.transformations())
