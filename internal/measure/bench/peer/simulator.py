"""Speed of Numba's CUDA simulator on the CPU, on the kernels of internal/test/workload.

    NUMBA_ENABLE_CUDASIM=1 python3 internal/measure/bench/peer/simulator.py

It prints lines in the format of Go's benchmarks, so that medians.py reads both. The
simulator runs thousands of threads per second, not millions, so the sizes are smaller
than in internal/test/workload. Compare threads/s.
"""
import os
os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")

import platform
import time

import numba
import numpy as np
from numba import cuda, float32


@cuda.jit
def vector_add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


@cuda.jit
def arithmetic(out, rounds):
    i = cuda.grid(1)
    x = i
    for _ in range(rounds):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        x ^= i
    out[i] = x


@cuda.jit
def transpose(src, dst):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.blockIdx.x * 32 + tx, cuda.blockIdx.y * 32 + ty
    for j in range(0, 32, 8):
        tile[ty + j, tx] = src[y + j, x]
    cuda.syncthreads()
    x, y = cuda.blockIdx.y * 32 + tx, cuda.blockIdx.x * 32 + ty
    for j in range(0, 32, 8):
        dst[y + j, x] = tile[tx, ty + j]


@cuda.jit
def reduce_barrier(src, out):
    part = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    part[t] = src[cuda.grid(1)]
    cuda.syncthreads()
    s = 128
    while s > 0:
        if t < s:
            part[t] += part[t + s]
        cuda.syncthreads()
        s >>= 1
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


def floats(*shape):
    return np.random.default_rng(1).random(shape, dtype=np.float32)


def run(name, kernel, n, grid, block, args, check):
    start = time.perf_counter()
    kernel[grid, block](*args)
    took = time.perf_counter() - start
    assert check(*args), name
    threads = int(np.prod(grid)) * int(np.prod(block))
    print(f"BenchmarkSimulator/kernel={name}/n={n} 1 {took * 1e9:.0f} ns/op {threads / took:.1f} threads/s", flush=True)


def linear(x, i, rounds):
    for _ in range(rounds):
        x = ((x * 1664525 + 1013904223) & 0xFFFFFFFF) ^ i
    return x


def main():
    print(f"# numba {numba.__version__}, Python {platform.python_version()}, numpy {np.__version__}")
    n = 4096
    run("vector_add", vector_add, n, (n // 256,), (256,), (floats(n), floats(n), np.zeros(n, np.float32)), lambda a, b, c: np.array_equal(a + b, c))
    n = 512
    run("arithmetic", arithmetic, n, (n // 256,), (256,), (np.zeros(n, np.uint32), 256), lambda out, r: all(linear(i, i, r) == out[i] for i in range(0, n, 37)))
    n = 64
    run("transpose", transpose, n, (n // 32, n // 32), (32, 8), (floats(n, n), np.zeros((n, n), np.float32)), lambda a, b: np.array_equal(a.T, b))
    n = 1024
    run("reduce_barrier", reduce_barrier, n, (n // 256,), (256,), (floats(n), np.zeros(n // 256, np.float32)),
        lambda a, b: np.allclose(a.reshape(-1, 256).sum(1), b, rtol=1e-4))


main()
