"""The peers of bench.SpeedStage in Python: PyTorch's copy_ and CuPy's set and get, up to
256 MiB. The protocol is that of stage.cu. All threads of PyTorch write the memory before
a request and compare it after the request.

    python3 stage.py
"""
import sys, time, mmap
import torch, cupy

MOST = 256 << 20
METHODS = ["torch", "cupy"]


def memory():
    m = mmap.mmap(-1, MOST)
    try:
        m.madvise(mmap.MADV_NOHUGEPAGE)
    except (AttributeError, OSError):
        pass
    return torch.frombuffer(m, dtype=torch.uint8).fill_(1)


plain = memory()
want = torch.randint(0, 256, (MOST + (1 << 16),), dtype=torch.uint8)
device = torch.empty(MOST, dtype=torch.uint8, device="cuda")


def run(how, into, host, n, turn):
    host, fresh, there = host[:n], want[turn:turn + n], device[:n]
    if into:
        host.copy_(fresh)
        there.fill_(0xEE)
    else:
        there.copy_(fresh)
        host.fill_(0xEE)
    array, view = host.numpy(), cupy.asarray(there)
    torch.cuda.synchronize()
    cupy.cuda.Device().synchronize()
    begin = time.perf_counter_ns()
    if how == "torch":
        there.copy_(host) if into else host.copy_(there)
        torch.cuda.synchronize()
    else:
        view.set(array) if into else view.get(out=array)
        cupy.cuda.Device().synchronize()
    took = time.perf_counter_ns() - begin
    if into:
        host.fill_(0)
        host.copy_(there)
    return took if torch.equal(host, fresh) else "-1 the bytes differ"


print(*(f"{m}<={MOST}" for m in METHODS), flush=True)
for turn, line in enumerate(sys.stdin):
    how, direction, n = line.split()
    print(run(how, direction == "in", plain, int(n), turn + 1), flush=True)
