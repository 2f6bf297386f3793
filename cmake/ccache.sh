#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles through ccache ($1). Writes a checksum beside each precompiled header. ccache reads the checksum for each
# file that includes the header, instead of the header's hundreds of megabytes.
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
