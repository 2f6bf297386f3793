# SPDX-License-Identifier: Apache-2.0
"""Finds words and constructions that must not come back into the texts that users read.

    python scripts/words.py [FILE...]

Without files, it reads the documents, the public headers, the rules, and the strings of the C++ and Python
sources. A phrase may continue on the next line of a text or of a comment, or in the next string literal.

The list is short on purpose. A phrase belongs here if plain technical English has no use for it. Where a match
is right all the same, make the pattern narrower; there is no comment that silences it.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Regular expressions, in which a space is any white space, and what to write instead.
PHRASES = {
    r"will not do(?! \w)": "is rejected; is not sufficient",
    r"(is|are|was|were) told(?! to)": "is reported; knows",
    r"(cannot|could not|can) be told": "cannot be determined",
    r"told from time to time": "called periodically",
    r"as (it|they) (is|are|was|were) meant to": "as intended",
    r"[a-z]+(-[a-z]+)*-written-out(-[a-z]+)*": "the rule's name: fuse-linear, fuse-attention-masked-fill, ...",
    r"faults? of refx|refx's faults?": "internal error",
    r"wrongs|a wrong (that|is|in|it|would)|small a wrong|smallest wrong": "error",
    r"deeds?": "edit; access",
    r"numbers? from 0 on|counted from 0": "non-negative integer; starting at 0",
    r"(goes|go|went|gone) with (it|them)": "is removed together with",
    r"(on|upon) trust": "unchecked",
    r"as (was|one) asked": "as requested",
    r"errs|erred|may err|meant to err": "has an error of; is inaccurate",
    r"called as such": "whose call boundary is preserved",
    r"the border of": "the boundary of",
    r"asked for ahead|what is to come": "prefetched",
    r"one-way street": "irreversible",
    r"(nothing|something|more|little) can be said": "inconclusive",
    r"(find|finds|found) nothing here": "no sites",
    r"(is|are) said to be": "is reported as",
    r"dearer": "slower; more expensive",
    r"as (it|they) pleases?": "freely",
    r"(must be|expected|is not|be|by) a text": "a string",
    r"is a number from 0": "is a non-negative integer",
    r"would (be noticed|notice)": "would (be) detect(ed)",
    r"(what|which|that) is no(?! longer| more)": "what is not a ...",
}

# Has the old names of rules, which are in files.
EXEMPT = {"src/ir/old_names.cpp"}

SOURCES = ("README.md", "CONTRIBUTING.md", "docs", "rules", "examples", "include", "cli", "src", "python", "web/src")
SUFFIXES = (".md", ".refx", ".cpp", ".h", ".def", ".py", ".js")


def keep(text, *parts):
    """The text with everything blanked but the parts (start, end); lines stay where they are.

    White space stays, so that a phrase may go on from one part to the next if nothing lies between them.
    """
    blank = [c if c.isspace() else "\0" for c in text]
    for start, end in parts:
        blank[start:end] = text[start:end]
    return "".join(blank)


CPP_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s]*)\((?P<raw>.*?)\)(?P=mark)"|"(?P<string>(?:\\.|[^"\\\n])*)"|\'(?:\\.|[^\'\\])\'',
    re.S)


def cpp(text, comments):
    """Of C++ source: the string literals, and the comments of a public header."""
    parts, quotes = [], []
    for token in CPP_TOKEN.finditer(text):
        if token["string"] is not None or token["raw"] is not None:
            parts.append(token.span("string" if token["string"] is not None else "raw"))
            quotes += [token.start(), token.end() - 1]
        elif comments and token[0][0] == "/":
            parts.append((token.start() + 2, token.end()))
            quotes += [token.start(), token.start() + 1]
    kept = list(keep(text, *parts))
    for at in quotes:  # of adjacent literals, and of lines of a comment
        kept[at] = " "
    return "".join(kept).replace("\\n", "  ")


def python(text):
    """Of Python source: its strings, docstrings among them."""
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    data = text.encode()
    at = lambda line, column: len(data[:lines[line - 1] + column].decode())  # noqa: E731
    return keep(text, *((at(n.lineno, n.col_offset), at(n.end_lineno, n.end_col_offset)) for n in ast.walk(ast.parse(text))
                        if isinstance(n, ast.JoinedStr) or isinstance(n, ast.Constant) and isinstance(n.value, str)))


def readable(path):
    """What a user reads of a file, at its place in the file."""
    text = path.read_text()
    match path.suffix:
        case ".cpp" | ".h" | ".def":
            return cpp(text, comments="include" in path.parts)
        case ".py":
            return python(text)
    return text


def findings(path):
    text = readable(path)
    for pattern, better in PHRASES.items():
        for found in re.finditer(rf"(?<![\w-])(?:{pattern})(?![\w-])".replace(" ", r"\s+"), text, re.I):
            yield text.count("\n", 0, found.start()) + 1, " ".join(found[0].split()), better


def files():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *SOURCES], cwd=ROOT, check=True,
                            capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.splitlines()
            if name not in EXEMPT and name.endswith(SUFFIXES) and (ROOT / name).is_file()]


def main(names):
    count = 0
    for path in map(Path, names) if names else files():
        for line, phrase, better in sorted(findings(path)):
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{shown}:{line}: '{phrase}': write: {better}")
            count += 1
    return count > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
