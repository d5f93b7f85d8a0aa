"""What the Go program beside this file runs in another process: PyTorch on memory that both have.

worker.py DEVICE, where DEVICE is the number of a CUDA device, or "soft" for the software GPU. Requests
and answers are JSON on the Unix socket with the descriptor 3. Memory comes and goes as descriptors.
It needs PyTorch, NVIDIA's driver and Python 3.9; with the software GPU it needs Python alone.
"""

import ctypes
import fcntl
import json
import mmap
import os
import socket
import sys

POSIX = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


class AccessDesc(ctypes.Structure):  # CUmemAccessDesc
    _fields_ = [("kind", ctypes.c_int), ("device", ctypes.c_int), ("flags", ctypes.c_int)]


class Driver:
    """NVIDIA's driver library."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError("%s: %s" % (name, (text.value or b"%d" % code).decode()))

    def granularity(self, handle):
        about, unit = ctypes.create_string_buffer(256), ctypes.c_size_t()  # CUmemAllocationProp, and more than its size
        self("cuMemGetAllocationPropertiesFromHandle", about, handle)
        self("cuMemGetAllocationGranularity", ctypes.byref(unit), about, ctypes.c_int(0))
        return unit.value

    def take(self, fd, size, device):
        """Maps the memory of a descriptor, and returns its address."""
        handle, address = ctypes.c_uint64(), ctypes.c_uint64()
        self("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), ctypes.c_int(POSIX))
        unit = self.granularity(handle)
        size = ctypes.c_size_t(-(-size // unit) * unit)
        self("cuMemAddressReserve", ctypes.byref(address), size, ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
        self("cuMemMap", address, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        self("cuMemRelease", handle)  # the mapping keeps the memory
        access = AccessDesc(1, device, 3)  # of a device, to read and write
        self("cuMemSetAccess", address, size, ctypes.byref(access), ctypes.c_size_t(1))
        return address.value

    def share(self, address):
        """Returns a descriptor of the memory at an address, where the address is in it, and its size.

        PyTorch has mapped pieces of memory behind each other. Those of one piece have one handle."""
        handle, fd = self.retain(address), ctypes.c_int()
        self("cuMemExportToShareableHandle", ctypes.byref(fd), handle, ctypes.c_int(POSIX), ctypes.c_uint64(0))
        unit = self.granularity(handle)
        start = end = address // unit * unit
        while self.belongs(start - unit, handle):
            start -= unit
        while self.belongs(end, handle):
            end += unit
        self("cuMemRelease", handle)
        if not start <= address < end:
            raise RuntimeError("the driver gives memory another handle each time")
        return fd.value, address - start, end - start

    def retain(self, address):
        handle = ctypes.c_uint64()
        self("cuMemRetainAllocationHandle", ctypes.byref(handle), ctypes.c_void_p(address))
        return handle

    def belongs(self, address, handle):
        """Reports whether memory at an address has a handle."""
        try:
            there = self.retain(address)
        except RuntimeError:
            return False  # nothing is mapped there
        self("cuMemRelease", there)
        return there.value == handle.value


class Array:
    """Memory on a GPU, as torch.as_tensor takes it."""

    def __init__(self, address, n):
        self.__cuda_array_interface__ = {"version": 3, "data": (address, False), "shape": (n,), "typestr": "<f4", "strides": None}


class Torch:
    """Works by PyTorch on a GPU."""

    def __init__(self, device):
        # Memory of ordinary allocations has no descriptor. That of expandable segments has.
        os.environ["PYTORCH_ALLOC_CONF"] = os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        try:
            import torch
        except ImportError as err:
            raise RuntimeError("%s: install PyTorch, or name another Python by FERRY_PYTHON" % err) from None
        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch %s finds no GPU: it may be built for the CPU" % torch.__version__)
        torch.cuda.set_device(device)
        self.torch, self.device, self.driver = torch, device, Driver()
        torch.cuda.init()
        self.name = "PyTorch %s" % torch.__version__

    def tensor(self, fd, n):
        address = self.driver.take(fd, 4 * n, self.device)
        x = self.torch.as_tensor(Array(address, n), device="cuda")
        if x.data_ptr() != address:
            raise RuntimeError("PyTorch has copied the memory")
        return x

    def scale(self, x, y):
        self.torch.add(self.torch.mul(x, 3), 1, out=y)
        total = x.sum().item()
        self.torch.cuda.synchronize()  # nobody orders the work of two processes
        return total

    def make(self, n):
        z = self.torch.arange(n, dtype=self.torch.float32, device="cuda") * 2
        self.torch.cuda.synchronize()
        return z

    def share(self, z):
        return self.driver.share(z.data_ptr())

    def wrong(self, z):
        want = self.torch.arange(len(z), dtype=self.torch.float32, device="cuda") * 2 + 1
        return int((z != want).sum().item())


class Software:
    """Works by Python on memory of Ferry's software GPU, which is a file in memory."""

    name = "Python in place of PyTorch"
    unit = 2 << 20

    def tensor(self, fd, n):
        size = os.fstat(fd).st_size
        self.label = os.pread(fd, size, size // self.unit * self.unit)  # names the device
        return memoryview(mmap.mmap(fd, size // self.unit * self.unit)).cast("f")[:n]

    def scale(self, x, y):
        for i, v in enumerate(x):
            y[i] = 3 * v + 1
        return sum(x)

    def make(self, n):
        """Makes a file of memory, with the tensor at an offset, as in memory of PyTorch."""
        self.offset = 512
        self.fd = os.memfd_create("worker", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.unit)
        os.pwrite(self.fd, self.label, self.unit)
        fcntl.fcntl(self.fd, 1033, 1 | 2 | 4)  # F_ADD_SEALS: the size stays
        z = memoryview(mmap.mmap(self.fd, self.unit)).cast("f")[self.offset // 4:][:n]
        for i in range(n):
            z[i] = 2 * i
        return z

    def share(self, z):
        return os.dup(self.fd), self.offset, self.unit

    def wrong(self, z):
        return sum(v != 2 * i + 1 for i, v in enumerate(z))


def main():
    sock = socket.socket(fileno=3)
    engine, z = None, None
    while True:
        text, fds, _, _ = socket.recv_fds(sock, 4096, 4)
        if not text:
            return  # the program has closed its end
        request, answer, shared = json.loads(text), {}, []
        try:
            if request["do"] == "start":
                engine = Software() if sys.argv[1] == "soft" else Torch(int(sys.argv[1]))
                answer["name"] = engine.name
            elif request["do"] == "scale":
                x, y = (engine.tensor(fd, request["n"]) for fd in fds)
                answer["sum"] = engine.scale(x, y)
            elif request["do"] == "make":
                z = engine.make(request["n"])
                fd, answer["offset"], answer["size"] = engine.share(z)
                shared.append(fd)
            elif request["do"] == "compare":
                answer["wrong"] = engine.wrong(z)
        except Exception as err:
            answer = {"error": "%s: %s" % (type(err).__name__, err)}
        socket.send_fds(sock, [json.dumps(answer).encode()], shared)
        for fd in fds + shared:
            os.close(fd)


main()
