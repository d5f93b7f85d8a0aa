"""The peers of package bench's StageSpeed in Python: PyTorch's copy_ and CuPy's set
and get, by the protocol of stage.cu.

    python3 stage.py
"""
import sys, time, mmap
import numpy, torch, cupy

MOST = 1 << 30
methods = ["torch", "cupy"]


def memory(huge):
    m = mmap.mmap(-1, MOST + (2 << 20))
    try:
        m.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    except (AttributeError, OSError):
        pass
    a = numpy.frombuffer(m, dtype=numpy.uint8)
    skip = -a.ctypes.data % (2 << 20)
    a = a[skip:skip + MOST]
    a[:] = 1
    return a


pages = {"4k": memory(False), "huge": memory(True)}
want = numpy.random.default_rng(1).integers(0, 256, MOST + (1 << 16), dtype=numpy.uint8)
tdev = torch.empty(MOST, dtype=torch.uint8, device="cuda")
cdev = cupy.empty(MOST, dtype=cupy.uint8)


def run(how, into, host, n, turn):
    host = host[:n]
    fresh = want[turn:turn + n]
    device = tdev[:n] if how == "torch" else cdev[:n]
    if into:
        host[:] = fresh
        device.fill_(0xEE) if how == "torch" else device.fill(0xEE)
    else:
        device.copy_(torch.from_numpy(fresh)) if how == "torch" else device.set(fresh)
        host[:] = 0xEE
    tensor = torch.from_numpy(host)
    torch.cuda.synchronize()
    cupy.cuda.Device().synchronize()
    begin = time.perf_counter_ns()
    if how == "torch":
        device.copy_(tensor) if into else tensor.copy_(device)
        torch.cuda.synchronize()
    else:
        device.set(host) if into else device.get(out=host)
        cupy.cuda.Device().synchronize()
    took = time.perf_counter_ns() - begin
    got = host
    if into:
        got = device.cpu().numpy() if how == "torch" else device.get()
    return took if numpy.array_equal(got, fresh) else "-1 the bytes differ"


print(*methods, flush=True)
for turn, line in enumerate(sys.stdin):
    how, direction, kind, n = line.split()
    print(run(how, direction == "in", pages[kind], int(n), turn + 1), flush=True)
