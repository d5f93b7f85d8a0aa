"""The peer of package bench for page-locking, with PyTorch.

    python3 pin.py          the default of PyTorch
    python3 pin.py register pinned_use_cuda_host_register, 8 threads
    python3 pin.py cached   allocate and free a tensor that the cache has

Each line on standard input is a number of bytes. It prints the nanoseconds of
page-locking and of freeing; with cached, those of both together and 0.
"""
import os
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
if MODE == "register":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "pinned_use_cuda_host_register:True,pinned_num_register_threads:8"

import torch  # noqa: E402  (torch reads the variable when it is imported)

torch.cuda.init()
torch.zeros(1, device="cuda")


def owned(n):
    t0 = time.perf_counter_ns()
    x = torch.empty(n, dtype=torch.uint8, pin_memory=True)
    t1 = time.perf_counter_ns()
    del x
    torch._C._host_emptyCache()
    return t1 - t0, time.perf_counter_ns() - t1


def cached(n, times=2000):
    for _ in range(100):
        torch.empty(n, dtype=torch.uint8, pin_memory=True)
    t0 = time.perf_counter_ns()
    for _ in range(times):
        torch.empty(n, dtype=torch.uint8, pin_memory=True)
    return (time.perf_counter_ns() - t0) // times, 0


for line in sys.stdin:
    print(*(cached if MODE == "cached" else owned)(int(line)), flush=True)
