# SPDX-License-Identifier: Apache-2.0
"""The program ``refx`` of an installed package, with the torch that is installed beside it.

A package of its own, so that starting the program does not import torch.
"""

import importlib.util
import os
import sys
from pathlib import Path


def _folder_of(package: str) -> "Path | None":
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) if places else None


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def wrong_torch(version: str, built_for: str, refx_version: str) -> "str | None":
    """What to do if refx cannot work with this torch."""
    if _minor(version) == _minor(built_for):
        return None
    return (f"refx {refx_version} was built for torch {built_for}, but this is torch {version}: install torch "
            f"{_minor(built_for)}, or build refx again with `pip install --no-build-isolation --force-reinstall refx`")


def main() -> None:
    """Becomes the program, which finds torch's libraries wherever this environment has them."""
    refx, torch = _folder_of("refx"), _folder_of("torch")
    if refx is None:
        sys.exit("refx: error: the package refx is not installed for this Python")
    if torch is None:
        sys.exit("refx: error: torch is not installed for this Python: `pip install torch`")
    places = [refx / "bin" / "refx", refx.parents[1] / "bin" / "refx"]  # of a wheel, of a build folder
    program = next((place for place in places if place.is_file()), None)
    if program is None:
        sys.exit(f"refx: error: there is no program at {places[0]}: this package was built without it")
    about: dict[str, str] = {}
    for file in (refx / "_build.py", torch / "version.py"):
        exec(file.read_text(), about)  # a few lines that only set names
    if problem := wrong_torch(about["__version__"], about["TORCH"], about["VERSION"]):
        sys.exit(f"refx: error: {problem}")
    libraries = [str(torch / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = os.environ | {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries))}
    os.execve(program, [sys.argv[0], *sys.argv[1:]], environment)
