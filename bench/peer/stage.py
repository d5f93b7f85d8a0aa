"""The peers of package bench's StageSpeed in Python: PyTorch's copy_ and CuPy's set
and get, by the protocol of stage.cu, up to 256 MiB. Memory is written before a request, and
compared after it, by all of PyTorch's threads.

    python3 stage.py
"""
import sys, time, mmap
import torch, cupy

MOST = 256 << 20
METHODS = ["torch", "cupy"]


def memory(huge):
    m = mmap.mmap(-1, MOST + (2 << 20))
    try:
        m.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    except (AttributeError, OSError):
        pass
    t = torch.frombuffer(m, dtype=torch.uint8)
    skip = -t.data_ptr() % (2 << 20)
    return t[skip:skip + MOST].fill_(1)


pages = {"4k": memory(False), "huge": memory(True)}
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
    how, direction, kind, n = line.split()
    print(run(how, direction == "in", pages[kind], int(n), turn + 1), flush=True)
