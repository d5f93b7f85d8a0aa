"""Increments numbers in page-locked memory by a kernel, through the CUDA driver API.

It needs Python alone: ctypes calls libcuda.so.1, which is NVIDIA's driver or the software GPU.
"""

import ctypes
import pathlib
import sys

N = 1000
MAPPED = 2  # CU_MEMHOSTALLOC_DEVICEMAP

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    """Calls a function of the driver and ends the program if it fails."""
    code = getattr(cuda, name)(*args)
    if code != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(text))
        sys.exit(f"{name}: {text.value.decode() if text.value else code}")


def main():
    context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    host, device = ctypes.POINTER(ctypes.c_float)(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    ptx = pathlib.Path(__file__).with_name("increment.ptx").read_bytes()
    call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx))
    call("cuModuleGetFunction", ctypes.byref(kernel), module, b"increment")
    call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(4 * N), MAPPED)
    call("cuMemHostGetDevicePointer_v2", ctypes.byref(device), host, 0)
    for i in range(N):
        host[i] = 41

    count = ctypes.c_uint64(N)
    args = (ctypes.c_void_p * 2)(ctypes.addressof(device), ctypes.addressof(count))
    call("cuLaunchKernel", kernel, (N + 255) // 256, 1, 1, 256, 1, 1, 0, None, args, None)
    call("cuCtxSynchronize")  # without it, host[0] may still be 41

    print(sum(host[i] for i in range(N)) / N)
    call("cuMemFreeHost", host)
    call("cuDevicePrimaryCtxRelease_v2", 0)


main()
