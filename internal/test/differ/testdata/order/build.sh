#!/bin/sh
# Compiles the kernels in this folder to PTX beside them.
set -eu
cd "$(dirname "$0")"
for f in *.cu; do
	go run ../../../../cmd/ferry compile "$f" --compiler clang -o "${f%.cu}.ptx"
done
