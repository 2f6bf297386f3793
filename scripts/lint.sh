#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the code without running it: scripts/lint.sh [CHECK...]
# The checks are format, license, words, python, web, commits, tidy; all of them run, whether or not one fails.
set -uo pipefail
cd "$(dirname "$0")/.."

# clang-format on all sources that git tracks or would add.
format() {
  git ls-files -co --exclude-standard '*.cpp' '*.h' '*.js' '*.mjs' | while read -r file; do
    [[ ! -f $file ]] || echo "$file"
  done | xargs -d '\n' -r -n 16 -P "$(nproc)" .venv/bin/clang-format "$@"
}

lint_format() {
  local log files
  log=$(format --dry-run --Werror -ferror-limit=1 2>&1) && return
  files=$(grep 'error: code should be' <<<"$log" | cut -d: -f1 | sort -u)
  if [[ $files ]]; then
    sed 's/^/not formatted: /' <<<"$files"
    echo "make format fixes this"
  else
    echo "$log" # clang-format itself failed
  fi
  return 1
}

lint_tidy() { .venv/bin/python scripts/tidy.py; }

lint_python() { .venv/bin/ruff check --quiet --output-format concise .; }

lint_license() {
  local files
  files=$(git ls-files -co --exclude-standard '*.cpp' '*.h' '*.def' '*.py' '*.js' '*.mjs' '*.sh' '*.cmake' '*CMakeLists.txt' \
    ':!tests/data' ':!fuzz/found' | while read -r file; do [[ ! -f $file ]] || echo "$file"; done |
    xargs -d '\n' grep -L -m1 'SPDX-License-Identifier: Apache-2.0')
  [[ -z $files ]] && return
  sed 's/$/: the first lines have no SPDX-License-Identifier: Apache-2.0/' <<<"$files"
  return 1
}

lint_words() { .venv/bin/python scripts/words.py; }

lint_web() {
  web/node_modules/.bin/eslint -c web/eslint.config.js --max-warnings 0 \
    web/src web/build.mjs web/eslint.config.js tests/report
}

# The subjects of all commits after this one are short. A shallow clone may lack that commit; then all
# commits of the clone are newer.
lint_commits() {
  local base=fce73fc45fc361f8b9ef879ec6b1eed43bee7621 range=HEAD long
  git rev-parse -q --verify HEAD >/dev/null || return 0 # not a checkout
  if git merge-base --is-ancestor "$base" HEAD 2>/dev/null; then
    range=$base..HEAD
  elif [[ $(git rev-parse --is-shallow-repository) != true ]]; then
    return 0
  fi
  long=$(git log --no-merges --format='%h %s' "$range" | LC_ALL=C.UTF-8 grep -E '^[^ ]+ .{73}')
  [[ -z $long ]] && return
  sed 's/$/: a subject has at most 72 characters/' <<<"$long"
  return 1
}

if [[ ${1-} == --fix ]]; then
  format -i && .venv/bin/ruff check --silent --fix --exit-zero .
  exit
fi

failed=()
for check in "${@:-format license words python web commits tidy}"; do
  for name in $check; do
    "lint_$name" || failed+=("$name")
  done
done
if ((${#failed[@]})); then
  echo "lint: failed: ${failed[*]}" >&2
  exit 1
fi
echo "lint: passed"
