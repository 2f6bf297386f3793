#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports a small model of every type of transformers, runs refx on each file, and writes docs/architectures.md.

    scripts/architectures.py --folder /tmp/architectures            # all types: an hour or two on two cores
    scripts/architectures.py --folder /tmp/architectures --only bert,llama/static-cache
    scripts/architectures.py --folder /tmp/architectures --table    # the page, from the results that are there

Each case runs in its own process, with a limit on its time and memory. Models that torch cannot export are counted but
not judged. The folder keeps the exports and the results (results.jsonl, a JSON object on each line), so that a stopped
run can be resumed. `--again` and `--problems` judge exports once more. The exit code is 1 if refx failed on a file.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import signal
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/python"))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
PAGE = ROOT / "docs/architectures.md"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where exports and results are kept")
    parser.add_argument("--program", default=str(ROOT / "build/bin/refx"))
    parser.add_argument("--only", help="cases, separated by commas; all model types if not given")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=int, default=300, help="time limit of a case")
    parser.add_argument("--memory", type=int, default=12, help="memory limit of a case, in GiB")
    parser.add_argument("--again", action="store_true", help="judge exports again that have a result")
    parser.add_argument("--problems", action="store_true", help="judge exports again that had a problem")
    parser.add_argument("--exports", action="store_true", help="export only")
    parser.add_argument("--table", action="store_true", help="write the page from the results, and do nothing else")
    return parser.parse_args()


# ---- running -------------------------------------------------------------------------------------


def take(case, args):
    """In the process of a case: exports it if that was not done yet, and takes the file through refx."""
    import hub_types
    from life import Life

    resource.setrlimit(resource.RLIMIT_AS, (args.memory << 30,) * 2)
    path = args.folder / f"{hub_types.file_name(case)}.pt2"
    note = path.with_suffix(".json")
    if note.exists():
        record = json.loads(note.read_text())
    else:
        note.write_text(json.dumps({"case": case, "error": "export: stopped by a limit of time or memory"}))
        record = hub_types.make(case, args.folder)
        note.write_text(json.dumps(record))
    if "error" not in record and not args.exports:
        list(hub_types.model_classes(case.partition("/")[0]))  # torch knows the outputs of imported models only
        scratch = args.folder / f"scratch-{os.getpid()}"
        scratch.mkdir()
        try:
            record.update(Life(args.program, path, scratch).run())
        except Exception as error:
            record["problems"] = [f"torch cannot load or run its own file: {type(error).__name__}: {error}"[:500]]
            record["torch"] = "cannot load"
        finally:
            shutil.rmtree(scratch)
    return record


def start(case, args):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        code = 1
        try:
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, 2)
            record = take(case, args)
            (args.folder / f"done-{os.getpid()}").write_text(json.dumps(record))
            code = 0
        finally:
            os._exit(code)
    return pid


def stopped(case, args, why):
    import hub_types
    note = args.folder / f"{hub_types.file_name(case)}.json"
    record = json.loads(note.read_text()) if note.exists() else {"case": case, "error": why}
    if "error" not in record:
        record["problems"] = [why]
    return record


def run(cases, args):
    """Yields a record for each case, as they finish."""
    import hub_types

    hub_types.warm_up()  # what all cases need is imported once: every case is a fork of this process
    waiting, running = list(cases), {}
    while waiting or running:
        while waiting and len(running) < args.jobs:
            case = waiting.pop(0)
            running[start(case, args)] = (case, time.monotonic())
        time.sleep(0.05)
        for pid, (case, began) in list(running.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            late = time.monotonic() - began > args.seconds
            if not done and not late:
                continue
            if not done:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            del running[pid]
            result = args.folder / f"done-{pid}"
            if result.exists():
                record = json.loads(result.read_text())
                result.unlink()
            else:
                record = stopped(case, args, f"stopped after {args.seconds} s" if late else f"stopped with status {status}")
            shutil.rmtree(args.folder / f"scratch-{pid}", ignore_errors=True)
            yield {**record, "seconds": round(time.monotonic() - began, 1)}


def results(args):
    """By case, the last one of each: what was judged, and what could not be exported."""
    path = args.folder / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    notes = [record for record in map(json.loads, (p.read_text() for p in args.folder.glob("*.json"))) if "error" in record]
    return {record["case"]: record for record in [*notes, *map(json.loads, lines)]}


# ---- the page ------------------------------------------------------------------------------------

INTRODUCTION = """\
# Architectures

`scripts/architectures.py` tests refx on the model types of the auto classes of transformers {versions}, and writes this
page. It reduces the sizes in the default configuration of each type and exports the model with random weights. If the export
without `torch.no_grad()` fails, it tries again under `torch.no_grad()`. Then it runs `refx inspect`, `refx run`,
`refx apply` with `all`, `refx verify` and `refx reverse` on the exported file.

A file has no problem if all checks succeed. `refx run` returns the same results as torch. torch loads the rewritten
file and computes the same results up to rounding. The reversed file equals the exported file, byte for byte.

transformers has {types} model types. {tried} of them were tried, and torch exported {exported}. The other {others} could
not be exported, or no inputs were found on which the small model runs. {good} of the {exported} files have no problem.

The columns count the steps of `all` by kind. *others* counts the steps of all other transformations.
"""
COLUMNS = {
    "merges": ("merge-linears",),
    "norms": ("fuse-layer-norm", "fuse-native-layer-norm", "fuse-rms-norm"),
    "attention": ("fuse-attention",),
    "batch norms": ("fuse-batch-norm", "fuse-frozen-batch-norm"),
}


def count(steps, prefixes):
    return sum(n for name, n in steps.items() if name.startswith(prefixes))


def page(records):
    import transformers

    import hub_types

    tried = [r for r in records if "/" not in r["case"]]
    exported = [r for r in tried if "error" not in r and r.get("torch") != "cannot load"]
    good = [r for r in exported if not r.get("problems")]
    versions = sorted({r["transformers"] for r in exported}) or [transformers.__version__]
    lines = INTRODUCTION.format(
        versions=", ".join(versions), types=len(hub_types.types()), tried=len(tried), exported=len(exported),
        others=len(tried) - len(exported), good=len(good)).splitlines()
    lines += ["", "| type | model | " + " | ".join(COLUMNS) + " | others | verify | problem |",
              "|---|---|" + "---|" * (len(COLUMNS) + 3)]
    for r in sorted(exported, key=lambda r: r["case"]):
        steps = r.get("steps", {})
        counts = [count(steps, prefixes) for prefixes in COLUMNS.values()]
        counts.append(sum(steps.values()) - sum(counts))
        problems = "; ".join(p.split(":")[0] for p in r.get("problems", []))
        lines.append(f"| `{r['case']}` | {r['class']} | " + " | ".join(str(c or "") for c in counts)
                     + f" | {r.get('verdict', '')} | {problems} |")
    missing = sorted(r["case"] for r in tried if r not in exported)
    lines += ["", "Not exported: " + ", ".join(missing) + "." if missing else ""]
    return "\n".join(lines).rstrip() + "\n"


def main():
    args = arguments()
    args.folder.mkdir(parents=True, exist_ok=True)
    args.folder = args.folder.resolve()
    if not args.table:
        import hub_types
        cases = args.only.split(",") if args.only else hub_types.types()
        have = {} if args.again else results(args)
        if args.problems:
            have = {case: record for case, record in have.items() if not record.get("problems")}
        if args.exports:
            have = {case: 1 for case in cases if (args.folder / f"{hub_types.file_name(case)}.json").exists()}
        wanted = [case for case in cases if case not in have]
        with (args.folder / "results.jsonl").open("a") as log:
            for i, record in enumerate(run(wanted, args), 1):
                if not args.exports:
                    log.write(json.dumps(record) + "\n")
                    log.flush()
                word = "not exported" if "error" in record else "; ".join(record.get("problems", [])) or "good"
                print(f"{i}/{len(wanted)} {record['case']} ({record['seconds']} s): {word[:300]}", flush=True)
    records = results(args)
    if args.table or not args.only:
        PAGE.write_text(page(records.values()))
    sys.exit(any(r.get("problems") for r in records.values()))


if __name__ == "__main__":
    main()
