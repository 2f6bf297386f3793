#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files that repeat what the program prints: `make goldens`, or scripts/goldens.py PROGRAM.

    tests/goldens/help/*.txt     the help of the program and of each command
    tests/goldens/list.txt       `refx list`
    tests/goldens/refx.1         the manual page, without the version
    tests/goldens/completion.txt what completion in bash offers
    docs/transformations.md      what `refx explain` prints of each transformation
    docs/refusals.md             what `refx list --reasons` prints
    docs/rules.md, README.md     the table below `<!-- rules -->`, and that below `<!-- commands -->`

With --check it writes nothing, names the files that differ and exits with 1. Read the difference before you commit
it: the tests compare the program with these files.
"""

import collections
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOLDENS = pathlib.Path("tests/goldens")

# Completes the last of the words in "$@", in a folder that has only the script for completion.
COMPLETE = """
source ./script
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_refx
printf '%s\\n' "${COMPREPLY[@]}" | LC_ALL=C sort
"""

TRANSFORMATIONS = """\
# Transformations

This page lists all transformations that ship with refx, in the order in which `refx apply MODEL all` applies them. `all`
omits lossy transformations, and those marked "not part of `all`". Each section shows what `refx explain NAME` prints.
For a rule, that is the text of the rule; [rules.md](rules.md) describes the language. `make goldens` writes this page.
"""

REFUSALS = """\
# Refusals

refx refuses to rewrite a site if the rewrite could change a result or could not be undone, and gives the reason.
`refx inspect MODEL` lists the refused sites. `refx explain REASON` prints the section of this page for a reason; REASON
is its code, its text or a part of the text. In a reason, "it", "its", "their" and "them" refer to the nodes at the
site. In JSON and Python, the field `code` contains the code. A later version of refx never changes the meaning of a
code, but it may change the text. `refx list --reasons` lists all codes. `make goldens` writes this page from
`include/refx/reasons.def`.
"""


class Program:
    def __init__(self, path: str) -> None:
        self.path = str(pathlib.Path(path).resolve())
        self.printed: dict[tuple[str, ...], str] = {}  # starting the program takes most of the time

    def __call__(self, *arguments: str) -> str:
        if arguments not in self.printed:
            self.printed[arguments] = subprocess.run(
                [self.path, *arguments], check=True, capture_output=True, text=True).stdout
        return self.printed[arguments]

    def commands(self) -> list[str]:
        return re.findall(r"^  (\w+) ", re.search(r"\nCommands:\n(.*?)\n\n", self("--help"), re.S)[1], re.M)

    def offered(self, *words: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "script").write_text(self("completion", "bash"))
            return subprocess.run(["bash", "-c", COMPLETE, "bash", *words], check=True, capture_output=True, text=True,
                                  cwd=folder).stdout


def completion(program: Program) -> str:
    """The commands, and the options of each."""
    lines = [("refx", ""), *(("refx", command, "m.pt2", "-") for command in program.commands())]
    return "\n".join(f"{' '.join(words)}\n{program.offered(*words)}" for words in lines)


def transformations(program: Program, listed: list[dict]) -> str:
    page = TRANSFORMATIONS
    for transformation in listed:
        _, facts, *text = program("explain", transformation["name"]).rstrip("\n").split("\n", 2)
        page += f"\n## {transformation['name']}\n\n{transformation['summary']}\n\n{facts}\n"
        if text:  # the contract
            page += f"\n```text\n{text[0].strip()}\n```\n"
    return page


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def refusals(reasons: list[dict]) -> str:
    page = REFUSALS
    for section, group in itertools.groupby(reasons, lambda reason: reason["section"]):
        rows = list(group)
        common = collections.Counter(row["what_to_do"] for row in rows).most_common(1)[0][0]
        page += f"\n## {section}\n"
        for text in (rows[0]["meaning"], f"Example: {rows[0]['example']}", f"What to do: {common}"):
            page += f"\n{textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)}\n"
        page += "\n| code | reason | what to do |\n|---|---|---|\n"
        for row in rows:
            advice = "see above" if row["what_to_do"] == common else cell(row["what_to_do"])
            page += f"| `{row['code']}` | {cell(row['reason'])} | {advice} |\n"
    return page


def rules(program: Program, listed: list[dict]) -> str:
    rows = [f"| `{t['name']}` | {cell(t['summary'])} |\n" for t in listed
            if f"\nrule {t['name']} " in program("explain", t["name"])]
    return "| name | what it does |\n|---|---|\n" + "".join(rows)


def command_table(program: Program) -> str:
    table = "| command | what it does |\n|---|---|\n"
    for command in program.commands():
        what, usage = program(command, "--help").split("\n", 2)[:2]
        usage = usage.removeprefix("Usage: ").replace(" [OPTIONS]", "")
        table += f"| `{cell(usage)}` | {cell(what)} |\n"
    return table


def with_table(page: pathlib.Path, mark: str, table: str) -> dict[pathlib.Path, str]:
    """The page with this table below the mark; nothing if the page has no such mark."""
    text, n = re.subn(rf"(<!-- {mark} -->\n\n?)(\|.*\n)+", lambda found: found[1] + table, (ROOT / page).read_text())
    return {page: text} if n else {}


def files(program: Program) -> dict[pathlib.Path, str]:
    """Paths below the root and what these files should contain."""
    listed = json.loads(program("list", "--json"))
    manual = re.sub(r'^(\.TH REFX 1 "" "refx) [^"]*"', r'\1"', program("man"))
    texts = {
        GOLDENS / "help/refx.txt": program("--help"),
        **{GOLDENS / f"help/{command}.txt": program(command, "--help") for command in program.commands()},
        GOLDENS / "list.txt": program("list"),
        GOLDENS / "refx.1": manual,
        GOLDENS / "completion.txt": completion(program),
        pathlib.Path("docs/transformations.md"): transformations(program, listed),
        pathlib.Path("docs/refusals.md"): refusals(json.loads(program("list", "--reasons", "--json"))),
    }
    return {**texts, **with_table(pathlib.Path("docs/rules.md"), "rules", rules(program, listed)),
            **with_table(pathlib.Path("README.md"), "commands", command_table(program))}


def differing(texts: dict[pathlib.Path, str]) -> list[pathlib.Path]:
    """The files that are missing, stale, or not written any more."""
    stale = [path for path, text in texts.items() if not (ROOT / path).exists() or (ROOT / path).read_text() != text]
    there = (path.relative_to(ROOT) for path in (ROOT / GOLDENS).rglob("*") if path.is_file())
    return stale + [path for path in there if path not in texts]


def main() -> int:
    check = sys.argv[1] == "--check"
    texts = files(Program(sys.argv[-1]))
    for path in differing(texts):
        if check:
            print(f"{path} differs from what the program prints; run: make goldens")
        elif path in texts:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(texts[path])
            print(f"wrote {path}")
        else:
            (ROOT / path).unlink()
            print(f"removed {path}")
    return 1 if check and differing(texts) else 0


if __name__ == "__main__":
    sys.exit(main())
