#!/usr/bin/env python3
"""Writes docs/transformations.md from what the program says: scripts/docs.py PROGRAM > docs/transformations.md"""

import json
import subprocess
import sys


def said(*command: str) -> str:
    return subprocess.run([sys.argv[1], *command], check=True, capture_output=True, text=True).stdout


def main() -> None:
    print("# Transformations\n")
    print("All that ship with refx, in the order in which `refx apply MODEL all` applies them; `all` leaves the lossy")
    print("ones out. `refx explain NAME` prints the same. What is given as a rule is the rule itself, see")
    print("[rules.md](rules.md). Written by `scripts/docs.py`.")
    for transformation in json.loads(said("list", "--json")):
        text = said("explain", transformation["name"]).rstrip("\n").split("\n", 2)
        print(f"\n## {transformation['name']}\n\n{transformation['summary']}\n\n{text[1]}\n\n```text\n{text[2].strip()}\n```")


main()
