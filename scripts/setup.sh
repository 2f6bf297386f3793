#!/usr/bin/env bash
# Installs what the build needs: Debian packages (Node.js among them, if there is none) and a
# .venv with torch. Running it again is cheap and does nothing. PYTHON chooses the interpreter that
# makes the .venv, TORCH another version of torch. Further packages can be named.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build ccache mold libgtest-dev libbenchmark-dev librapidcheck-dev
          libcli11-dev libzip-dev libsimdjson-dev libxxhash-dev libdeflate-dev strace
          chromium pkgconf groff-base zsh fish "$@")
python=${PYTHON:-python3}
stamp=.venv/.refx-requirements # a copy of the requirements that were installed

requirements() { sed "${TORCH:+s/^torch==.*/torch==$TORCH/}" requirements-dev.txt; }
fail() { echo "setup: $*" >&2; exit 1; }

# ---- Debian packages

# Only where there is none yet: another Node.js than Debian's is as good.
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)

venv_done() { requirements | cmp -s - "$stamp"; }
if ! venv_done && ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  packages+=(python3-venv)
fi

if command -v dpkg-query >/dev/null; then
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
  missing=()
  for p in "${packages[@]}"; do
    grep -qxF "installed $p" <<<"$installed" || missing+=("$p")
  done
  if ((${#missing[@]})); then
    sudo=()
    if ((EUID)); then
      sudo=(sudo -n)
      "${sudo[@]}" true 2>/dev/null || fail "please install these packages: ${missing[*]}"
    fi
    echo "setup: installing ${missing[*]}"
    apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
    log=$(mktemp)
    { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } \
      >"$log" 2>&1 || { cat "$log" >&2; fail "could not install: ${missing[*]} (log in $log)"; }
    rm -f "$log"
  fi
elif ! venv_done; then
  echo "setup: not a Debian system; the build needs the equivalents of: ${packages[*]}"
fi

# ---- Python environment

venv_done && exit 0
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  fail "needs Python 3.10 or newer as $python (or set PYTHON)"
if ! .venv/bin/python -c '' 2>/dev/null; then
  echo "setup: creating .venv"
  "$python" -m venv --clear .venv
fi
echo "setup: installing requirements-dev.txt into .venv: 1.3 GB, a minute or two"
.venv/bin/python -m pip install -qq --disable-pip-version-check -r <(requirements)
requirements >"$stamp"
