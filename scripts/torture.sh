#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Random runs that check what refx guarantees, TORTURE_S seconds (60) for each kind, in JOBS processes with
# different seeds. REFX_SEED sets the first seed, ONLY a filter of GoogleTest.
set -euo pipefail
cd "$(dirname "$0")/.."

export TORTURE_S=${TORTURE_S:-60} OMP_NUM_THREADS=1
first=${REFX_SEED:-$(date +%s)}
jobs=${JOBS:-$(nproc)}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

running=()
for ((i = 0; i < jobs; i++)); do
  REFX_SEED=$((first + i)) "${1:-build/bin/refx_torture}" --gtest_brief=1 \
    --gtest_filter="${ONLY:-*}" >"$logs/$i" 2>&1 &
  running+=($!)
done
failed=0
for i in "${!running[@]}"; do
  wait "${running[i]}" || { failed=1; echo "torture: REFX_SEED=$((first + i)) found a fault:"; cat "$logs/$i"; }
done
sed -n 's/^torture: \([0-9]*\) \(.*\), 0 wrong$/\1\t\2/p' "$logs"/* | awk -F'\t' '
  { sum[$2] += $1 }
  END { for (what in sum) printf "torture: %d %s, 0 wrong\n", sum[what], what }'
exit $failed
