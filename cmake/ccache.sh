#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles through ccache ($1). Beside a precompiled header its checksum is left, which ccache then reads for each
# file that includes the header, instead of its hundreds of megabytes.
out= previous=
for argument; do
  if [ "$previous" = -o ]; then out=$argument; fi
  previous=$argument
done
case $out in
  *.gch | *.pch) ;;
  *) exec "$@" ;;
esac
rm -f "$out.sum"
"$@" && sha256sum <"$out" >"$out.sum"
