#!/bin/sh
# build.sh nvcc|clang [FAMILY...] compiles the families to PTX for each target, in ptx/.
# debug has no optimisation and has line numbers, fast is -use_fast_math, nofma is
# -fmad=false, clang0 is clang without optimisation.
set -eu
cd "$(dirname "$0")"
mkdir -p ptx
with=$1; shift
[ $# -gt 0 ] || set -- $(ls *.cu | sed 's/\.cu$//')
: "${NVCC:=nvcc}" "${CLANG:=clang-19}" "${JOBS:=4}"

# one FAMILY TARGET prints the command that compiles the family for the target. It prints
# nothing if the family is not compiled for it.
one() {
	case $1.$2 in
	half.clang* | math.clang*) ;; # need CUDA's headers or its library
	half.sm_75 | math.sm_75 | tensor.sm_75 | copy.sm_75) ;; # need sm_80, or are large
	math.debug | half.debug) ;; # large: the library's functions are calls
	*.clang) echo "$clang -O2 $1.cu -o ptx/$1.clang.ptx" ;;
	*.clang0) echo "$clang -O0 $1.cu -o ptx/$1.clang0.ptx" ;;
	*.sm_*) echo "$NVCC -ptx -O3 -arch=$2 $1.cu -o ptx/$1.$2.ptx" ;;
	*.debug) echo "$NVCC -ptx -G -arch=sm_90 $1.cu -o ptx/$1.debug.ptx" ;;
	math.fast | stencil.fast | diverge.fast | matrix.fast) echo "$NVCC -ptx -O3 -use_fast_math -arch=sm_90 $1.cu -o ptx/$1.fast.ptx" ;;
	stencil.nofma | diverge.nofma | reduce.nofma) echo "$NVCC -ptx -O3 -fmad=false -arch=sm_90 $1.cu -o ptx/$1.nofma.ptx" ;;
	esac
}

clang="$CLANG -x cuda --cuda-gpu-arch=sm_80 --cuda-device-only -nocudainc -nocudalib -fdeclspec -Xclang -target-feature -Xclang +ptx80 -S"
case $with in
clang) targets="clang clang0" ;;
nvcc) targets="sm_75 sm_80 sm_90 debug fast nofma" ;;
*) echo "build.sh nvcc|clang [FAMILY...]" >&2; exit 2 ;;
esac
for family in "$@"; do
	for target in $targets; do one "$family" "$target"; done
done | xargs -P "$JOBS" -I{} sh -c '{}'

# The PTX for an older target is mostly the same as for sm_90. Such files are removed.
for f in ptx/*.sm_75.ptx ptx/*.sm_80.ptx; do
	[ -f "$f" ] || continue
	newest=${f%.sm_*}.sm_90.ptx
	if [ "$(grep -v '^\.target' "$f")" = "$(grep -v '^\.target' "$newest")" ]; then rm "$f"; fi
done
