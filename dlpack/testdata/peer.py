"""The other process of the tests: what a program in Python does with tensors of Ferry.

    peer.py FD          exchanges tensors over the socket with that descriptor
    peer.py unit        tests what needs no other process
    peer.py "has torch" fails if there is no PyTorch

The work on an array is done by PyTorch and CuPy where they and a GPU are, else by this file.
"""

import ctypes
import gc
import json
import os
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
sys.dont_write_bytecode = True
import ferry_dlpack as fd  # noqa: E402


class Consumer:
    """A library that takes a capsule, as PyTorch does in C."""

    def __init__(self, x, versioned=True):
        capsule = x.__dlpack__(max_version=(1, 0)) if versioned else x.__dlpack__()
        self.kind = fd._Versioned if versioned else fd._Legacy
        name = fd._NAMES[self.kind]
        assert fd._capsule_is_valid(capsule, name), capsule
        self.x = self.kind.from_address(fd._capsule_pointer(capsule, name))
        fd._capsule_set_name(capsule, fd._used_names[b"used_" + name])

    def floats(self):
        t = self.x.tensor
        n = 1
        for i in range(t.ndim):
            n *= t.shape[i]
        return (ctypes.c_float * n).from_address(t.data + t.byte_offset)

    def delete(self):
        self.x.deleter(ctypes.addressof(self.x))


def work(x, a, b):
    """x = x * a + b, by a library that takes it. Returns the name of the library."""
    if x.__dlpack_device__()[0] == fd._CUDA:
        return work_of_torch(x, a, b)
    for versioned in (True, False):
        c = Consumer(x, versioned)
        floats = c.floats()
        for i in range(len(floats)):
            floats[i] = floats[i] * a + b if versioned else floats[i] + 1
        c.delete()
    c = Consumer(x)
    for i, value in enumerate(c.floats()):
        c.floats()[i] = value - 1
    c.delete()
    return "this file"


def work_of_torch(x, a, b):
    import torch
    t = torch.from_dlpack(x)
    assert t.data_ptr() == x.address, "PyTorch has copied"
    t.mul_(a).add_(b)
    try:
        import cupy
    except ImportError:
        torch.cuda.synchronize()
        return "PyTorch"
    torch.cuda.synchronize()
    c = cupy.from_dlpack(x)
    assert c.data.ptr == x.address, "CuPy has copied"
    c += 1
    c -= 1
    cupy.cuda.Device().synchronize()
    return "PyTorch and CuPy"


def multiples(x, k):
    """Writes element i = i * k."""
    if x.__dlpack_device__()[0] == fd._CUDA:
        import torch
        t = torch.from_dlpack(x)
        t.copy_(torch.arange(t.numel(), device=t.device, dtype=t.dtype).reshape(t.shape) * k)
        return
    c = Consumer(x)
    floats = c.floats()
    for i in range(len(floats)):
        floats[i] = i * k
    c.delete()


def copied(like):
    """A tensor that another library has allocated, as one that can be sent."""
    if like.__dlpack_device__()[0] == fd._CUDA:
        import torch
        return fd.share(torch.arange(1200, device="cuda", dtype=torch.float32).reshape(30, 40) * 11)
    own = fd.allocate("float32", (30, 40), like=like)  # stands for a tensor of the CPU
    multiples(own, 11)
    return fd.share(own, like=like)


def exchange(sock):
    x = fd.receive(sock)
    assert (x.dtype, x.shape) == ("float32", (30, 40)), x
    library = work(x, 3, 5)
    sock.sendall(library.encode().ljust(32))
    assert sock.recv(1) == b"1"  # Go has worked, too
    work(x, 2, 0)
    fd.send(sock, x)
    y = fd.allocate("float32", (7, 100), like=x)
    multiples(y, 7)
    fd.send(sock, y)
    fd.send(sock, copied(x))
    assert sock.recv(1) == b"2"  # Go has changed y, which is one memory
    work(y, 1, 0)
    fd.send(sock, y)
    assert sock.recv(1) == b"3"
    for _ in range(100):
        again = fd.receive(sock)
        work(again, 1, 1)
        fd.send(sock, again)
    del x, y, again
    gc.collect()
    fd._sweep()
    assert not fd._held and not fd._offered, (fd._held, fd._offered)
    sock.sendall(b"done".ljust(32))
    assert sock.recv(1) == b""


def unit():
    a, b = socket.socketpair()
    memory = software_memory(1 << 21)
    x = fd.Tensor(memory, "float32", (3, 4))
    assert x.nbytes == 48 and repr(x) == "<ferry_dlpack.Tensor float32 (3, 4) on a software GPU>", x
    # Deleters, on this and on other threads, and capsules that nobody takes.
    for i in range(10000):
        c = Consumer(x, i % 2 == 0)
        if i % 100 == 0:
            t = threading.Thread(target=c.delete)
            t.start()
            t.join()
        else:
            c.delete()
    assert not fd._held, len(fd._held)
    kept = x.__dlpack__(max_version=(1, 0))
    x.__dlpack__()
    fd._sweep()
    assert len(fd._held) == 1 and len(fd._offered) == 1, "the capsule that somebody has must stay, and the other go"
    p = fd._Versioned.from_address(fd._capsule_pointer(kept, b"dltensor_versioned"))
    assert (p.major, p.flags, p.tensor.ndim, p.tensor.shape[1], p.tensor.strides[0]) == (1, 0, 2, 4, 4)
    del kept
    fd._sweep()
    assert not fd._held and not fd._offered
    try:
        int(x.__dlpack__())  # drops a capsule with an error on its way
    except TypeError:
        pass
    fd._sweep()
    assert not fd._held
    # What nobody takes goes with the tensor, and with the next call.
    x.__dlpack__()
    fd.Tensor(memory, "float32", (3,))
    assert not fd._held, "a capsule is left after a tensor"
    x.__dlpack__()
    wants(fd.Error, "elements of type", fd.allocate, "float31", 3)
    assert not fd._held, "a capsule is left after allocate"
    # A deleter that runs within a sweep, as one of the collector or of another thread can.
    c, counts = Consumer(x), fd._references
    fd._references = lambda offered: (counts(offered), c.delete())[0]
    fd._sweep()
    fd._references = counts
    assert not fd._held, len(fd._held)
    # The memory stays while a consumer has it.
    c = Consumer(x)
    c.floats()[5] = 7
    del x, memory
    gc.collect()
    assert c.floats()[5] == 7
    c.delete()
    assert not fd._held
    # What is refused.
    memory = software_memory(1 << 21)
    x = fd.Tensor(memory, "float32", (3, 4), read_only=True)
    assert Consumer(x).x.flags == 1
    wants(BufferError, "read-only", x.__dlpack__)
    wants(BufferError, "not copied", x.__dlpack__, max_version=(1, 0), copy=True)
    wants(BufferError, "not on device", x.__dlpack__, max_version=(1, 0), dl_device=(2, 0))
    x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=False)
    wants(fd.Error, "elements of type 'float31'", fd.allocate, "float31", (3,), like=x)
    wants(fd.Error, "negative", fd.allocate, "float32", (3, -1), like=x)
    wants(fd.Error, "more bytes", fd.allocate, "float32", (1 << 31, 1 << 31), like=x)
    wants(fd.Error, "no GPU to share", fd.share, fd.Tensor(memory, "float32", (3,)))
    wants(fd.Error, "on neither CUDA nor the CPU", fd.share, Liar(None, (8, 0)), like=x)
    wants(fd.Error, "on CUDA device 3, and its copy would be on a software GPU", fd.share, Liar(None, (2, 3)), like=x)
    wants(fd.Error, "on CUDA device 3, and its copy would be on CUDA device 1", fd.share, Liar(None, (2, 3)), device=1)
    pinned = Liar(fd.Tensor(memory, "float32", (3, 4)).__dlpack__(max_version=(1, 3)), (3, 0))
    assert fd.share(pinned, like=x).shape == (3, 4)
    wrong = Liar(fd.Tensor(memory, "float32", (3, 4)).__dlpack__(max_version=(1, 3)))
    fd._Versioned.from_address(fd._capsule_pointer(wrong.capsule, b"dltensor_versioned")).tensor.ndim = 10**9
    wants(fd.Error, "1000000000 dimensions", fd.share, wrong, like=x)
    wants(fd.Error, "no capsule", fd.share, Liar(object()), like=x)
    column = Liar(fd.Tensor(memory, "float32", (3, 4)).__dlpack__(max_version=(1, 3)))
    fd._Versioned.from_address(fd._capsule_pointer(column.capsule, b"dltensor_versioned")).tensor.strides[0] = 1
    wants(fd.Error, "make it contiguous", fd.share, column, like=x)
    y = fd.share(fd.Tensor(memory, "float32", (3, 4)), like=x)
    assert y.shape == (3, 4) and y.address != x.address
    # Messages.
    empty = fd.allocate("uint8", (0, 5), like=x)
    fd.send(a, empty)
    assert fd.receive(b).shape == (0, 5)
    fd.send(a, fd.allocate("bfloat16", 100, like=x))
    z = fd.receive(b)
    assert (z.dtype, z.shape) == ("bfloat16", (100,))
    good = {"dtype": "float32", "shape": [4]}
    for text, descriptors, part in [
        (b"{", 1, "says nothing about a tensor"),
        (b"[]", 1, "says nothing about a tensor"),
        (json.dumps({"dtype": 3, "shape": []}).encode(), 1, "says nothing"),
        (json.dumps({"dtype": "float32", "shape": [-4]}).encode(), 1, "negative"),
        (json.dumps({"dtype": "float32", "shape": ["4"]}).encode(), 1, "shape"),
        (json.dumps({"dtype": "float32", "shape": [1 << 30]}).encode(), 1, "the memory has 2097152 bytes"),
        (json.dumps(good).encode(), 0, "with 0 descriptors"),
        (json.dumps(good).encode(), 2, "with 2 descriptors"),
        (json.dumps(good).encode(), -1, "an ordinary file"),
        (b"x" * 5000, 1, "a message of 5000 bytes is too long: that of a tensor has at most 4096"),
    ]:
        a, b = socket.socketpair()
        before = len(os.listdir("/proc/self/fd"))
        files = [memory.fileno() for _ in range(max(descriptors, 0))] if descriptors >= 0 else [os.open(__file__, os.O_RDONLY)]
        header = len(text).to_bytes(4, "big")
        socket.send_fds(a, [header], files) if files else a.sendall(header)
        a.sendall(text)
        for f in files:
            os.close(f)
        wants(fd.Error, part, fd.receive, b)
        assert len(os.listdir("/proc/self/fd")) == before, "a descriptor is left after %r" % part
    a, b = socket.socketpair()
    a.close()
    wants(fd.Error, "the socket was closed", fd.receive, b)
    a, b = socket.socketpair()
    a.sendall(b"\0\0\0\5ab")
    a.close()
    wants(fd.Error, "within a message", fd.receive, b)
    if not os.path.exists("/dev/nvidiactl"):
        wants(fd.Error, "driver", fd.allocate, "float32", (3,))
    try:
        import numpy
    except ImportError:
        print("not tested: NumPy is not installed for", sys.executable)
        return
    array = numpy.from_dlpack(y)
    array[:] = 5
    assert array.ctypes.data == y.address and Consumer(y).floats()[11] == 5


class Liar:
    """A tensor of the CPU that gives any capsule."""

    def __init__(self, capsule, place=(1, 0)):
        self.capsule, self.place = capsule, place

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, **_):
        return self.capsule


def software_memory(size):
    """A file as that of a software GPU."""
    import fcntl
    f = os.memfd_create("memory", os.MFD_ALLOW_SEALING)
    os.ftruncate(f, size + 64)
    fcntl.fcntl(f, 1033, 1 | 2 | 4)
    return fd._SoftwareMemory(f)


def wants(kind, part, f, *args, **named):
    try:
        f(*args, **named)
    except kind as err:
        assert part in str(err), "%r lacks %r" % (str(err), part)
        return
    raise AssertionError("no error, want %r" % part)


if __name__ == "__main__":
    if sys.argv[1] == "unit":
        unit()
    elif sys.argv[1] == "has torch":
        import torch  # noqa: F401
    else:
        exchange(socket.socket(fileno=int(sys.argv[1])))
