#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A tour of the program: every command is shown, then run. The last line says that all went well.
#
# usage: examples/tour.sh [FOLDER]    FOLDER keeps the files; without it they are removed at the end
#
# REFX_PROGRAM is the program (else the refx in PATH), PYTHON a Python that has torch (else python3).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

fail() { echo "tour: $*" >&2; exit 1; }
found() { # by its whole path, since the tour goes elsewhere
  local path
  path=$(command -v "$1") || fail "no $1 here; $2"
  echo "$(cd "$(dirname "$path")" && pwd)/${path##*/}"
}
program=$(found "${REFX_PROGRAM:-refx}" "set REFX_PROGRAM, or PATH")
interpreter=$(found "${PYTHON:-python3}" "set PYTHON")
refx() { "$program" "$@"; }
python() { "$interpreter" "$@"; }

if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[m'; else bold='' plain=''; fi
say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
# Shows a command and runs it; `run` wants it to succeed, `no` to answer no.
run() { printf '\n$ %s\n' "$1"; eval "$1" || fail "exit code $? of: $1"; }
no() {
  local code=0
  printf '\n$ %s\n' "$1"
  eval "$1" || code=$?
  ((code == 1)) || fail "exit code $code, not 1, of: $1"
}

if [[ $# -gt 0 ]]; then
  mkdir -p "$1" && cd "$1"
else
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cd "$folder"
fi
cp "$here/model.py" .

say "PyTorch exports a small vision transformer. From here on no Python is needed."
run "python model.py vit.pt2"

say "What is in it, and what could be rewritten?"
run "refx inspect vit.pt2"

say "Three rewrites: one linear for query, key and value; no division; the batch norm folded away."
run "refx apply vit.pt2 merge-linears change-true-div-to-mul-by-inverse fuse-batch-norm-2d-in-conv-2d -o fast.pt2"
run "refx log fast.pt2"

say "Does it still compute the same? It is held against its own original, which is in the file."
run "refx verify fast.pt2 --per-step"

say "Is it faster, here? (One second is a glance; without --seconds it looks longer.)"
run "refx bench fast.pt2 --threads 1 --seconds 1"

say "Take one step back, out of order. The others stay."
run "refx reverse fast.pt2 'layers.0.{query,key,value}' -o less.pt2"
run "refx log less.pt2"

say "What is the difference? The exit code is 1 where there is one, as of diff."
no "refx diff fast.pt2 less.pt2"

say "Take all of it back: the file that PyTorch wrote, byte for byte."
run "refx reverse less.pt2 --all -o back.pt2"
run "cmp vit.pt2 back.pt2 && echo the same file"

say "Some rewrites approximate. Which layers would suffer from 8-bit weights?"
run "refx sensitivity vit.pt2 store-linear-int8"

say "As small as it gets, with an error of at most 0.4 %."
run "refx tune vit.pt2 store-linear-int8 --prefer size --budget 0.004 --threads 1 --seconds 0.2 -o small.pt2"
run "refx verify small.pt2 --budget 0.005 | tail -1"
no "refx verify small.pt2 --budget 0.00001 | tail -1"

say "The originals leave the file. Their hashes stay, so that they can come back from the first file."
run "refx detach small.pt2 -o slim.pt2"
run "ls -l vit.pt2 small.pt2 slim.pt2"
run "refx reverse slim.pt2 --all --base vit.pt2 -o again.pt2"
run "cmp vit.pt2 again.pt2 && echo the same file"

say "One page about all that, to be opened in a browser."
run "refx report fast.pt2 -o report.html --no-bench"
grep -q '<html' report.html || fail "report.html is no page"

say "Done${1:+: the files are in $1}."
