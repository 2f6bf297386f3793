# SPDX-License-Identifier: Apache-2.0
"""Every include points down: CONTRIBUTING.md has the order of the floors."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Faces see what is public, their own headers, and the helpers that belong to nobody.
FACES = {"cli": {"util"}, "python": {"util"}, "examples": set()}


def floors():
    """The floors from the ground up, each with its public headers."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = re.search(r"## Floors\n.*?\n\| *floor.*?\n\|[-|]*\n(.*?)\n\n", text, re.S)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]
    return [(re.fullmatch(r"`src/(\w+)/`", row[0])[1], re.findall(r"`([\w.]+)`", row[1])) for row in rows]


def includes(path):
    return re.findall(r'^#include "([^"]+)"', path.read_text(), re.M)


def sources(folder):
    return [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in {".h", ".cpp", ".def"}]


def check(height, of_header, name, path, found):
    """The arrows of a file that do not point down."""
    wrong = []
    for include in found:
        room, _, header = include.partition("/")
        target = of_header.get(Path(header).stem) if room == "refx" else room
        if target is None or target not in height:
            continue  # a header of its own folder
        if height[target] > height[name]:
            wrong.append(f"{path}: {name} -> {target} ({include})")
    return wrong


def layout():
    order = floors()
    height = {name: i for i, (name, _) in enumerate(order)}
    return height, {Path(header).stem: name for name, headers in order for header in headers}


def test_every_folder_and_every_public_header_has_a_floor():
    height, of_header = layout()
    assert {path.name for path in (ROOT / "src").iterdir() if path.is_dir()} == set(height)
    public = {path.stem for path in (ROOT / "include/refx").iterdir()}
    assert public == set(of_header) | {"refx"}


def test_no_arrow_runs_up():
    height, of_header = layout()
    wrong = []
    for name in height:
        for path in sources(f"src/{name}"):
            wrong += check(height, of_header, name, path.relative_to(ROOT), includes(path))
    for path in sources("include/refx"):
        if path.stem != "refx":  # which has them all
            wrong += check(height, of_header, of_header[path.stem], path.relative_to(ROOT), includes(path))
    assert wrong == []


def test_an_arrow_that_runs_up_is_noticed():
    height, of_header = layout()
    assert check(height, of_header, "edit", "a.cpp", ["transforms/apply.h"])
    assert check(height, of_header, "ir", "a.cpp", ["refx/executor.h"])
    assert not check(height, of_header, "transforms", "a.cpp", ["edit/step.h", "refx/model.h"])


def test_faces_see_only_what_is_public():
    height, _ = layout()
    wrong = [
        f"{path.relative_to(ROOT)}: {include}"
        for face, allowed in FACES.items()
        for path in sources(face)
        for include in includes(path)
        if (room := include.partition("/")[0]) in height and room not in allowed and "/" in include
    ]
    assert wrong == []


def test_private_headers_of_edit_stay_inside():
    """`edit/` alone writes models: what it writes with is not for others."""
    wrong = [
        f"{path.relative_to(ROOT)}: {include}"
        for folder in ["src", "cli", "python", "examples", "bench"]
        for path in sources(folder)
        if path.parent != ROOT / "src/edit"
        for include in includes(path)
        if include.startswith("edit/")
    ]
    assert wrong == []
