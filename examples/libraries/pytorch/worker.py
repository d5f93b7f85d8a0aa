"""What the Go program beside this file runs in another process: PyTorch on memory that both have.

worker.py DEVICE, where DEVICE is the number of a CUDA device, or "soft" for the software GPU. Memory
goes over the Unix socket with the descriptor 3. What there is to say is a line of JSON on the standard
output. It needs PyTorch and NVIDIA's driver; for the software GPU it needs Python alone.
"""

import ctypes
import json
import os
import socket
import sys

import ferry_dlpack


def say(**what):
    print(json.dumps(what), flush=True)


def main():
    engine = Software() if sys.argv[1] == "soft" else Torch(int(sys.argv[1]))
    say(name=engine.name)
    sock = socket.socket(fileno=3)

    # Two buffers of Ferry.
    x, y = engine.receive(sock), engine.receive(sock)
    say(sum=engine.scale(x, y))

    # Memory of PyTorch, with a tensor in it.
    z = engine.make(1000)
    memory, offset = engine.memory(z)
    say(offset=offset)
    ferry_dlpack.send(sock, memory)
    sys.stdin.readline()  # Go has added 1
    say(wrong=engine.wrong(z))


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
        self.torch, self.device = torch, device
        self.name = "PyTorch %s" % torch.__version__

    def receive(self, sock):
        shared = ferry_dlpack.receive(sock, self.device)
        x = self.torch.from_dlpack(shared)
        if x.data_ptr() != shared.address:
            raise RuntimeError("PyTorch has copied the memory")
        return x

    def scale(self, x, y):
        self.torch.add(self.torch.mul(x, 3), 1, out=y)
        total = x.sum().item()
        self.torch.cuda.synchronize()  # nobody orders the work of two processes
        return total

    def make(self, n):
        return self.torch.arange(n, dtype=self.torch.float32, device="cuda") * 2

    def memory(self, z):
        piece = Piece(self.device, z.data_ptr())
        return ferry_dlpack.Tensor(piece, "float32", (piece.size // 4,)), z.data_ptr() - piece.address

    def wrong(self, z):
        want = self.torch.arange(len(z), dtype=self.torch.float32, device="cuda") * 2 + 1
        return int((z != want).sum().item())


POSIX = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


class Piece:
    """Memory of PyTorch around an address, as ferry_dlpack sends it.

    PyTorch maps pieces of memory behind each other. What has one handle of the driver is one piece.
    """

    def __init__(self, device, address):
        self.place, self.lib = (2, device), ctypes.CDLL("libcuda.so.1")
        self.handle = self.retain(address)  # for as long as the process lives
        about, unit = ctypes.create_string_buffer(256), ctypes.c_size_t()  # CUmemAllocationProp, and more than its size
        self.call("cuMemGetAllocationPropertiesFromHandle", about, self.handle)
        self.call("cuMemGetAllocationGranularity", ctypes.byref(unit), about, ctypes.c_int(0))
        unit = unit.value
        start = end = address // unit * unit
        while self.belongs(start - unit):
            start -= unit
        while self.belongs(end):
            end += unit
        if not start <= address < end:
            raise RuntimeError("the driver gives memory another handle each time")
        self.address, self.size = start, end - start

    def call(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError("%s: %s" % (name, (text.value or b"%d" % code).decode()))

    def retain(self, address):
        handle = ctypes.c_uint64()
        self.call("cuMemRetainAllocationHandle", ctypes.byref(handle), ctypes.c_void_p(address))
        return handle

    def belongs(self, address):
        """Reports whether memory at an address has the handle."""
        try:
            there = self.retain(address)
        except RuntimeError:
            return False  # nothing is mapped there
        self.call("cuMemRelease", there)
        return there.value == self.handle.value

    def fileno(self):
        fd = ctypes.c_int()
        self.call("cuMemExportToShareableHandle", ctypes.byref(fd), self.handle, ctypes.c_int(POSIX), ctypes.c_uint64(0))
        return fd.value

    def wait(self):
        self.call("cuCtxSynchronize")


class Software:
    """Works by Python on memory of Ferry's software GPU, which is memory of the CPU here."""

    name = "Python in place of PyTorch"

    def receive(self, sock):
        self.shared = ferry_dlpack.receive(sock)
        return self.at(self.shared, 0, self.shared.shape[0])

    def at(self, tensor, offset, n):
        floats = (ctypes.c_float * n).from_address(tensor.address + offset)
        floats.memory = tensor  # stays as long as the array
        return floats

    def scale(self, x, y):
        for i, v in enumerate(x):
            y[i] = 3 * v + 1
        return sum(x)

    def make(self, n):
        whole = ferry_dlpack.allocate("float32", (n + 200,), like=self.shared)
        z = self.at(whole, 512, n)
        for i in range(n):
            z[i] = 2 * i
        return z

    def memory(self, z):
        return z.memory, 512

    def wrong(self, z):
        return sum(v != 2 * i + 1 for i, v in enumerate(z))


try:
    main()
except Exception as err:
    say(error="%s: %s" % (type(err).__name__, err))
