#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/transformations.md from what the program says: scripts/docs.py PROGRAM > docs/transformations.md"""

import json
import subprocess
import sys


def said(*command: str) -> str:
    return subprocess.run([sys.argv[1], *command], check=True, capture_output=True, text=True).stdout


def main() -> None:
    print("# Transformations\n")
    print("All transformations that ship with refx, in the order in which `refx apply MODEL all` applies them. `all` omits the")
    print("lossy ones, and those that are marked as not part of `all`. `refx explain NAME` prints the same text. For a rule, the")
    print("text is the rule itself; see [rules.md](rules.md). `scripts/docs.py` writes this page.")
    for transformation in json.loads(said("list", "--json")):
        text = said("explain", transformation["name"]).rstrip("\n").split("\n", 2)
        print(f"\n## {transformation['name']}\n\n{transformation['summary']}\n\n{text[1]}\n\n```text\n{text[2].strip()}\n```")


main()
