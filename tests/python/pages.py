# SPDX-License-Identifier: Apache-2.0
"""Markdown as our documentation uses it: code blocks, links, headings; and output as a page shows it."""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def name_of(path):
    return str(path.relative_to(ROOT))


@dataclasses.dataclass
class Block:
    page: str
    line: int  # of its first line in the page
    language: str
    text: str

    @property
    def place(self):
        return f"{self.page}:{self.line}"


FENCE = re.compile(r"( *)```(\S*)\s*$")


def blocks(path):
    """The fenced code blocks of a page. Others are an error: nobody would know what they are."""
    found, prose = split(path)
    lines = prose.splitlines()
    for number, line in enumerate(lines):
        before = next((text for text in reversed(lines[:number]) if text and not text.startswith(" ")), "")
        in_a_list = re.match(r"([-*]|\d+\.) ", before)
        assert not (line.startswith("    ") and not lines[number - 1] and not in_a_list), (
            f"{name_of(path)}:{number + 1}: code is put between ``` with its language, not indented")
    return found


def split(path):
    """The blocks of a page, and its text without them, line for line."""
    found, prose, fence = [], [], None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark = FENCE.match(line)
        if fence is None and mark:
            fence = mark
            found.append(Block(name_of(path), number + 1, mark[2], ""))
        elif fence and mark and not mark[2]:
            fence = None
        elif fence:
            found[-1].text += line.removeprefix(fence[1]) + "\n"
            prose.append("")
            continue
        else:
            prose.append(line)
            continue
        prose.append("")
    assert fence is None, f"{name_of(path)}: a code block is not closed"
    return found, "\n".join(prose)


def inline_code(path):
    return re.findall(r"(?<!`)`([^`]+)`(?!`)", split(path)[1])


def links(path):
    text = re.sub(r"`[^`]*`", "code", split(path)[1])
    return re.findall(r"\]\(([^)\s]+)\)", text)


def anchors(path):
    """Of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.*)$", split(path)[1], re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


# ---- sessions of a shell -------------------------------------------------------------------------


@dataclasses.dataclass
class Command:
    place: str
    text: str
    shown: list
    code: int = 0


def session(block):
    """The commands of a block, each with what it shows below them."""
    commands, goes_on = [], False
    for number, line in enumerate(block.text.splitlines()):
        if goes_on:
            commands[-1].text += "\n" + line
        elif line.startswith("$ "):
            commands.append(Command(f"{block.page}:{block.line + number}", line[2:], []))
        else:
            assert commands, f"{block.place}: a session begins with `$ `"
            commands[-1].shown.append(line)
        goes_on = goes_on and line.endswith("\\") or line.startswith("$ ") and line.endswith("\\")
    for command in commands:
        code = re.search(r"# .*exit code (\d+)$", command.text)
        command.code = int(code[1]) if code else 0
    return commands


# ---- what is shown and what came -----------------------------------------------------------------

ANY_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|inf|nan)"
MAY_DIFFER = re.compile(r"(?<![\w.])\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+)(?![\d.])")


def line_pattern(shown):
    parts = re.split(r"(\.\.\.)", shown.strip())
    text = "".join(".*" if part == "..." else _exact(part) for part in parts)
    return re.compile(text)


def _exact(text):
    kept, at = "", 0
    for number in MAY_DIFFER.finditer(text):
        kept += re.escape(text[at:number.start()]) + ANY_NUMBER
        at = number.end()
    return re.sub(r"(?:\\ )+", r"\\s+", kept + re.escape(text[at:]))


def matches(shown, got):
    """Whether lines are what a page shows: `...` stands for anything, as a line for any lines; numbers with a
    point or an exponent may be others; how wide a gap is does not matter."""
    got = [line.strip() for line in got]
    while got and not got[-1]:
        got.pop()
    reached = {0}  # how many lines of `got` what was shown so far may stand for
    for line in shown:
        if line.strip() == "...":
            reached = set(range(min(reached, default=len(got) + 1), len(got) + 1))
        else:
            pattern = line_pattern(line)
            reached = {at + 1 for at in reached if at < len(got) and pattern.fullmatch(got[at])}
    return len(got) in reached
