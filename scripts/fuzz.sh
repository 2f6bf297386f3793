#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Searches for inputs that break refx: FUZZ_S seconds for each target, or for the named targets.
# Inputs that reach new code are kept in build-fuzz/corpus, and the next search starts from them. Inputs that
# break refx are written to fuzz/found, and every test run repeats them.
# usage: scripts/fuzz.sh [TARGET…]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_S:-60}
program=build-fuzz/bin/refx_fuzz
corpus=build-fuzz/corpus
all=$(sed -n 's/^ *{"\([a-z_]*\)", run_.*/\1/p' fuzz/target.cpp)
targets=("$@")
((${#targets[@]})) || mapfile -t targets <<<"$all"

PYTHONPATH=build/python .venv/bin/python fuzz/make_seeds.py build-fuzz/seeds tests/data/pt2/*.pt2

search() {
  local target=$1
  mkdir -p "$corpus/$target" "fuzz/found/$target" build-fuzz/seeds/"$target"
  if REFX_TARGET=$target "$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 \
      -malloc_limit_mb=512 -max_len=200000 -detect_leaks=0 -print_final_stats=1 \
      -artifact_prefix="fuzz/found/$target/" "$corpus/$target" "build-fuzz/seeds/$target" \
      "fuzz/found/$target" >"build-fuzz/$target.log" 2>&1; then
    rmdir --ignore-fail-on-non-empty "fuzz/found/$target"
    echo "fuzz: $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "build-fuzz/$target.log") runs, no fault"
  else
    tail -n 40 "build-fuzz/$target.log" >&2
    echo "fuzz: $target: a fault; its bytes are in fuzz/found/$target, all of the log in build-fuzz/$target.log" >&2
    return 1
  fi
}
export -f search
[[ -w /dev/shm ]] && export TMPDIR=/dev/shm # files that live as long as one input
export LSAN_OPTIONS=suppressions=$PWD/scripts/lsan.supp:print_suppressions=0
export seconds program corpus OMP_NUM_THREADS=1 REFX_READ_JSON=$PWD/fuzz/read_json.py
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'search {}'
