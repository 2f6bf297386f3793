# SPDX-License-Identifier: Apache-2.0
"""Makes the images of README.md from the model of the examples:

    python scripts/images.py [PROGRAM]

docs/images/report.png is the page of `refx report` in Chromium; docs/images/history.svg draws what `refx log` prints
after every command. PROGRAM is build/bin/refx if it is not given. Needs torch and Chromium.
"""

import html
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/images"
REWRITES = ("merge-linears", "change-true-div-to-mul-by-inverse", "fuse-batch-norm-2d-in-conv-2d")
# A step on the result of step 1, so that undoing step 1 shows what becomes of a step that depends on it.
DEPENDENT = ("fuse-bias-in-linear", "--site", "layers.0.{query,key,value}")


class Refx:
    """Runs the program in a folder."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def __call__(self, *args):
        done = subprocess.run([self.program, *args], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"})
        if done.returncode:
            sys.exit(f"images: refx {' '.join(args)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def log(self, name):
        return json.loads(self("log", name, "--json"))


# ---- the history -------------------------------------------------------------------------------------------------

WIDTH, MARGIN, ROW, HEAD, GAP = 760, 24, 24, 34, 46
STYLE = """
    .card { fill: #ffffff; stroke: #c8ccd2; }
    .same { fill: #f3f5f8; stroke: #7a828e; }
    .new { fill: #dcebff; stroke: #2f6fd0; }
    text { fill: #1c2128; }
    .soft { fill: #57606a; font-size: 13px; }
    .line { stroke: #57606a; fill: none; stroke-width: 1.5; }
    .tip { fill: #57606a; }
    .mono { font-family: ui-monospace, monospace; font-size: 13px; }
    @media (prefers-color-scheme: dark) {
      .card { fill: #14181f; stroke: #3a424d; }
      .same { fill: #222831; stroke: #8b949e; }
      .new { fill: #16335c; stroke: #6ea8fe; }
      text { fill: #e6edf3; }
      .soft { fill: #aab2bd; }
      .line { stroke: #aab2bd; }
      .tip { fill: #aab2bd; }
    }"""


def text(x, y, words, kind=""):
    return f'  <text x="{x}" y="{y}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{html.escape(words)}</text>'


def card(top, name, note, steps, known):
    """A file with its steps; the steps that the file before it does not have are coloured."""
    lines = [f'  <rect class="card" x="{MARGIN}.5" y="{top}.5" width="{WIDTH - 2 * MARGIN - 1}" '
             f'height="{HEAD + ROW * len(steps) + (6 if steps else 0)}" rx="8"/>',
             text(MARGIN + 14, top + 23, name, "mono"), text(MARGIN + 110, top + 23, note, "soft")]
    for i, step in enumerate(steps):
        y = top + HEAD + ROW * i
        kind = "same" if step["id"] in known else "new"
        lines += [f'  <rect class="{kind}" x="{MARGIN + 14}.5" y="{y}.5" width="34" height="{ROW - 5}" rx="5"/>',
                  f'  <text x="{MARGIN + 31}" y="{y + 14}" class="mono" text-anchor="middle">{step["id"]}</text>',
                  text(MARGIN + 60, y + 14, step["transformation"], "mono"),
                  text(MARGIN + 350, y + 14, step["site"], "mono")]
    return lines, top + HEAD + ROW * len(steps) + (6 if steps else 0)


def arrow(top, command):
    return [f'  <path class="line" d="M{MARGIN + 31} {top + 4}V{top + GAP - 5}" marker-end="url(#tip)"/>',
            text(MARGIN + 60, top + GAP / 2 + 5, f"$ {command}", "mono")]


def draw(files):
    """files: (the command that writes it, its name, a note, its steps)."""
    lines, top, known = [], 14, set()
    for command, name, note, steps in files:
        if command:
            lines += arrow(top, command)
            top += GAP
        drawn, top = card(top, name, note, steps, known)
        lines += drawn
        known = {step["id"] for step in steps}
    height = top + 14
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" \
role="img" font-family="system-ui, sans-serif" font-size="14">
  <title>The steps in a model's file after refx apply, after one step was undone, and after all were undone</title>
  <style>{STYLE}
  </style>
  <defs>
    <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
      <path class="tip" d="M0 0 8 4 0 8z"/>
    </marker>
  </defs>
""" + "\n".join(lines) + "\n</svg>\n"


def history(refx):
    """Runs the commands that the diagram shows, and draws their results."""
    refx("apply", "vit.pt2", *REWRITES, "-o", "three.pt2")
    refx("apply", "three.pt2", *DEPENDENT, "-o", "fast.pt2")
    refx("reverse", "fast.pt2", "1", "-o", "less.pt2")
    refx("reverse", "less.pt2", "--all", "-o", "back.pt2")
    if (refx.folder / "vit.pt2").read_bytes() != (refx.folder / "back.pt2").read_bytes():
        sys.exit("images: back.pt2 differs from vit.pt2")
    fast, less = refx.log("fast.pt2"), refx.log("less.pt2")
    added = [step["id"] for step in less if step["id"] not in {step["id"] for step in fast}]
    last = fast[-1]["id"]
    renewed = f"step {last} depended on it and was applied again as {', '.join(map(str, added))}" if added else ""
    return draw([
        ("", "vit.pt2", "written by torch.export.save, no steps", []),
        ("refx apply vit.pt2 merge-linears ... -o fast.pt2", "fast.pt2", f"{len(fast)} steps", fast),
        ("refx reverse fast.pt2 1 -o less.pt2", "less.pt2", f"without step 1; {renewed}", less),
        ("refx reverse less.pt2 --all -o back.pt2", "back.pt2", "byte for byte the same as vit.pt2", []),
    ])


# ---- the report ---------------------------------------------------------------------------------------------------


def screenshot(refx, to):
    """The top of the page, in the light colours."""
    refx("report", "fast.pt2", "-o", "report.html")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        sys.exit("images: there is no Chromium in PATH")
    subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
                    f"--user-data-dir={refx.folder / 'profile'}", "--window-size=1200,745",
                    "--virtual-time-budget=10000", f"--screenshot={to}", (refx.folder / "report.html").as_uri()],
                   check=True, timeout=120, capture_output=True, env={**os.environ, "HOME": str(refx.folder)})


def main(program=ROOT / "build/bin/refx"):
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        refx = Refx(Path(program).resolve(), Path(scratch))
        subprocess.run([sys.executable, ROOT / "examples/model.py", refx.folder / "vit.pt2"], check=True)
        (IMAGES / "history.svg").write_text(history(refx))
        screenshot(refx, IMAGES / "report.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
