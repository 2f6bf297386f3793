#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The installed program, pkg-config file, manual page and completion scripts work.
# usage: installed.sh PREFIX CXX [FLAG...]
set -euo pipefail
prefix=$(readlink -f "$1") cxx=$2
shift 2
export PATH=$prefix/bin:$PATH PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name refx.pc)")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "installed: $*" >&2; exit 1; }

[[ $(command -v refx) == "$prefix/bin/refx" ]] || fail "no program"
[[ $(refx --version) == "refx $(pkg-config --modversion refx) "* ]] || fail "another version than pkg-config's"

# A copy of the installed files needs LibTorch, but no library that was needed only by the build.
cp -a "$prefix" "$work/copy"
[[ $("$work/copy/bin/refx" --version) == "$(refx --version)" ]] || fail "a copy does not run"
outside=$(ldd "$(find "$work/copy" -name 'librefx.so.*' -print -quit)" |
  sed -n 's/.*=> \([^ ]*\) .*/\1/p' | grep -E 'simdjson|xxhash|deflate' | grep -vF "$work/copy/" || true)
[[ -z $outside ]] || fail "librefx loads $outside"

# shellcheck disable=SC2046
eval "\"$cxx\" $* tests/install_consumer/main.cpp -o \"$work/consumer\" $(pkg-config --cflags --libs refx)"
[[ $("$work/consumer") == *change-true-div* ]] || fail "the program that pkg-config's flags built"

page=$prefix/share/man/man1/refx.1
GROFF_NO_SGR=1 groff -k -man -Tutf8 -ww "$page" 2>"$work/warnings" | sed 's/.\x08//g' >"$work/page"
[[ ! -s $work/warnings ]] || fail "the manual page: $(cat "$work/warnings")"
for word in "refx apply" "refx explain" "refx man" --cascade --accept "Exit codes"; do
  grep -qF -e "$word" "$work/page" || fail "the manual page does not say '$word'"
done
[[ $(refx man) == "$(cat "$page")" ]] || fail "another manual page than the program's"

# ---- completion, in the shells themselves

offers() { # SHELL TYPED EXPECTED...
  local shell=$1 typed=$2 said
  said=$("${shell}_offers" "$typed" 2>&1)
  shift 2
  for word; do
    grep -qF -e "$word" <<<"$said" || fail "$shell offers for '$typed' no '$word': $said"
  done
}
bash_offers() {
  bash --norc -c '. "$1"; COMP_LINE=$2; COMP_POINT=${#2}; read -ra COMP_WORDS <<<"$2"
    [[ $2 == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _refx; printf "%s\n" "${COMPREPLY[@]}"' \
    bash "$prefix/share/bash-completion/completions/refx" "$1"
}
fish_offers() {
  HOME=$work fish --no-config -c 'source $argv[1]; complete -C $argv[2]' \
    "$prefix/share/fish/vendor_completions.d/refx.fish" "$1"
}
# zsh completes only at its prompt: start it in a pseudo-terminal and press Tab.
zsh_offers() {
  HOME=$work zsh -fc '
    zmodload zsh/zpty
    zpty shell zsh -fi
    zpty -w shell "PS1=; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u; LISTMAX=0; stty -echo"
    zpty -w shell "zstyle \":completion:*\" list-prompt \"\"; echo re\"\"ady"
    while zpty -r shell line && [[ $line != *ready* ]]; do :; done
    zpty -w -n shell "$2"$'"'\\t'"'
    for i in {1..100}; do
      sleep 0.05
      while zpty -rt shell line; do print -r -- $line; i=$((i > 60 ? i : 60)); done
    done
    zpty -d shell' zsh "$prefix/share/zsh/site-functions" "$1"
}
for shell in bash zsh fish; do
  command -v "$shell" >/dev/null || { echo "installed: no $shell here"; continue; }
  offers "$shell" "refx inspe" inspect
  offers "$shell" "refx apply m.pt2 merge-e" merge-equal-nodes
  offers "$shell" "refx reverse m.pt2 --casc" --cascade
done
echo "1 passed, 0 failed"
