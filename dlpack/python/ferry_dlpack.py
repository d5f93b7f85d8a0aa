"""Memory of a Go program that uses Ferry, as tensors of PyTorch, CuPy and NumPy, and back.

This is one file for CPython 3.9 or newer on Linux. It needs nothing but the standard library and
NVIDIA's driver: no compiler, and no CUDA toolkit. Only share copies data.

The two processes are connected by a Unix socket. What Go sends with dlpack.Send:

    tensor = ferry_dlpack.receive(sock)
    x = torch.from_dlpack(tensor)       # or cupy.from_dlpack, numpy.from_dlpack

What Go takes with dlpack.Receive:

    tensor = ferry_dlpack.allocate("float32", (1024, 1024))
    x = torch.from_dlpack(tensor)       # work in it, without a copy
    ferry_dlpack.send(sock, tensor)
    ferry_dlpack.send(sock, ferry_dlpack.share(y))  # any tensor y: a copy of it

Both processes use the same memory, which lives until both have given it back. Nobody orders the
work of two processes. So send waits for the work of its device, and each side may use the memory
when it knows that the other has finished, as by a message.

Memory of a software GPU of Ferry comes as memory of the CPU. So all this can be tried without a GPU.
"""

import ctypes
import fcntl
import itertools
import json
import mmap
import os
import socket
import stat
import struct
import sys
import threading
import weakref

__all__ = ["Error", "Tensor", "allocate", "receive", "send", "share"]


class Error(RuntimeError):
    """What cannot be done, or an error of the driver."""


# ---------------------------------------------------------------------------------------------
# DLPack 1.3

_CPU, _CUDA, _HOST, _MANAGED = 1, 2, 3, 13  # device types: _HOST is page-locked
_READ_ONLY = 1


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_deleter_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Legacy(ctypes.Structure):  # DLManagedTensor
    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _deleter_type)]


class _Versioned(ctypes.Structure):  # DLManagedTensorVersioned
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _deleter_type),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_NAMES = {_Legacy: b"dltensor", _Versioned: b"dltensor_versioned"}
_FLOAT8 = ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
           "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]

# The types of elements: their code and bits.
_TYPES = {"bool": (6, 8), "bfloat16": (4, 16)}
for _bits in (8, 16, 32, 64):
    _TYPES["int%d" % _bits] = (0, _bits)
    _TYPES["uint%d" % _bits] = (1, _bits)
    if _bits > 8:
        _TYPES["float%d" % _bits] = (2, _bits)
        _TYPES["complex%d" % (2 * _bits)] = (5, 2 * _bits)
for _i, _name in enumerate(_FLOAT8):
    _TYPES[_name] = (7 + _i, 8)
_TYPE_NAMES = {v: k for k, v in _TYPES.items()}

_api = ctypes.pythonapi
_capsule_new = _api.PyCapsule_New
_capsule_new.restype = ctypes.py_object
_capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule_is_valid = _api.PyCapsule_IsValid
_capsule_is_valid.restype = ctypes.c_int
_capsule_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer = _api.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_set_name = _api.PyCapsule_SetName
_capsule_set_name.restype = ctypes.c_int
_capsule_set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]

# What consumers have, by the number in the context of its tensor: the struct, and the memory.
# A capsule that nobody has taken is in _offered, too. It has no destructor: one in Python could
# not run while an error is on its way, which is when a consumer drops a capsule.
_held = {}
_offered = {}
_numbers = itertools.count(1)
_lock = threading.RLock()


def _deleted(address, kind):
    if address:
        number = kind.from_address(address).context
        with _lock:
            gone = _offered.pop(number, None), _held.pop(number, None)
        del gone  # without the lock: it may unmap memory


# The deleters. Any thread may call them: ctypes takes the lock of the interpreter.
_delete_legacy = _deleter_type(lambda p: _deleted(p, _Legacy))
_delete_versioned = _deleter_type(lambda p: _deleted(p, _Versioned))


def _sweep():
    """Drops what no consumer has taken, and nobody will: only _offered has the capsule."""
    gone = []
    with _lock:  # the collector can call _deleted, or this function, in between
        for number, count in _references(_offered).items():
            offer = _offered.get(number)
            if offer is None:
                continue
            taken = not _capsule_is_valid(*offer)
            if taken or count <= _unshared:
                gone.append(_offered.pop(number, None))
                if not taken:
                    gone.append(_held.pop(number, None))
            del offer
    del gone  # without the lock: it may unmap memory
    _DeviceMemory.unmap_left()


def _references(offered):
    """How many references each capsule has."""
    return {number: sys.getrefcount(entry[0]) for number, entry in list(offered.items())}


_unshared = _references({0: (object(), b"")})[0]  # of a capsule that only _offered has


def _capsule_of(tensor, kind):
    """A capsule of a tensor, for one consumer."""
    _sweep()
    shape = (ctypes.c_int64 * max(1, len(tensor.shape)))(*tensor.shape)
    strides = (ctypes.c_int64 * max(1, len(tensor.shape)))(*_row_major(tensor.shape))
    x = kind()
    if kind is _Versioned:
        x.major, x.minor, x.deleter = 1, 3, _delete_versioned
        x.flags = _READ_ONLY if tensor.read_only else 0
    else:
        x.deleter = _delete_legacy
    t = x.tensor
    code, bits = _TYPES[tensor.dtype]
    t.code, t.bits, t.lanes, t.ndim = code, bits, 1, len(tensor.shape)
    t.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    t.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
    t.data = tensor.address or None
    t.device_type, t.device_id = tensor.__dlpack_device__()
    x.context = number = next(_numbers)
    name = _NAMES[kind]
    capsule = _capsule_new(ctypes.addressof(x), name, None)
    with _lock:
        _held[number] = (x, shape, strides, tensor._memory)
        _offered[number] = (capsule, name)
    return capsule


def _row_major(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.insert(0, step)
        step *= max(n, 1)
    return strides


# ---------------------------------------------------------------------------------------------
# The driver

_POSIX = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Properties(ctypes.Structure):  # CUmemAllocationProp
    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    ]


class _Access(ctypes.Structure):  # CUmemAccessDesc
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class _Driver:
    """The driver library, with the primary context of one device."""

    _all = {}

    @classmethod
    def of(cls, device):
        with _lock:
            if device not in cls._all:
                cls._all[device] = cls(device)
            return cls._all[device]

    def __init__(self, device):
        try:
            self._lib = ctypes.CDLL("libcuda.so.1")
        except OSError as err:
            raise Error("open NVIDIA's driver: %s" % err) from None
        self.device = device
        self._ctx = ctypes.c_void_p()
        self._call("cuInit", ctypes.c_uint(0))
        handle = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(handle), ctypes.c_int(device))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._ctx), handle)

    def _call(self, name, *args):
        code = getattr(self._lib, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self._lib.cuGetErrorName(code, ctypes.byref(text))
            raise Error("%s: %s" % (name, (text.value or b"error %d" % code).decode()))

    def call(self, name, *args):
        """Calls a function with the context current, and leaves the thread as it was."""
        self._call("cuCtxPushCurrent_v2", self._ctx)
        try:
            self._call(name, *args)
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def properties(self):
        p = _Properties(type=1, handle_types=_POSIX)  # pinned, as all of cuMemCreate is
        p.location = _Location(1, self.device)
        return p

    def round(self, size):
        """A size in units of the device, and the unit."""
        unit = ctypes.c_size_t()
        self.call("cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(self.properties()), ctypes.c_int(0))
        return max(1, -(-size // unit.value)) * unit.value, unit.value

    def create(self, size):
        handle = ctypes.c_uint64()
        self.call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(self.properties()), ctypes.c_uint64(0))
        return handle

    def take(self, fd):
        """The handle of the memory of a descriptor, and the device that has it."""
        handle = ctypes.c_uint64()
        self.call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), ctypes.c_int(_POSIX))
        about = _Properties()
        try:
            self.call("cuMemGetAllocationPropertiesFromHandle", ctypes.byref(about), handle)
        except BaseException:
            self.call("cuMemRelease", handle)
            raise
        return handle, about.location.id

    def share(self, handle):
        fd = ctypes.c_int(-1)
        self.call("cuMemExportToShareableHandle", ctypes.byref(fd), handle, ctypes.c_int(_POSIX), ctypes.c_uint64(0))
        return fd.value

    def map(self, handle, size):
        """Maps memory at an address of its own, which unmap gives back with the handle."""
        p = ctypes.c_uint64()
        self.call("cuMemAddressReserve", ctypes.byref(p), ctypes.c_size_t(size), ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
        try:
            self.call("cuMemMap", p, ctypes.c_size_t(size), ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
            try:
                access = _Access(_Location(1, self.device), 3)  # read and write
                self.call("cuMemSetAccess", p, ctypes.c_size_t(size), ctypes.byref(access), ctypes.c_size_t(1))
            except BaseException:
                self.call("cuMemUnmap", p, ctypes.c_size_t(size))
                raise
        except BaseException:
            self.call("cuMemAddressFree", p, ctypes.c_size_t(size))
            raise
        return p.value

    def unmap(self, handle, address, size):
        """Gives memory back. An error leaves it as it was, if it comes before the first change."""
        mode = ctypes.c_int(2)  # relaxed: a capture of the program goes on
        self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            self.call("cuCtxSynchronize")  # work may still use the memory
            self.call("cuMemUnmap", ctypes.c_uint64(address), ctypes.c_size_t(size))
            self.call("cuMemAddressFree", ctypes.c_uint64(address), ctypes.c_size_t(size))
            self.call("cuMemRelease", handle)
        finally:
            self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def copy(self, to, source, size):
        self.call("cuMemcpy", ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size))
        self.wait()

    def wait(self):
        self.call("cuCtxSynchronize")


# ---------------------------------------------------------------------------------------------
# Memory that two processes have

_GRANULE = 2 << 20  # of a software GPU
_ADD_SEALS, _GET_SEALS, _SEAL_SHRINK = 1033, 1034, 2


class _DeviceMemory:
    """Memory of a GPU, until nobody has it. fd is the descriptor of memory that came from elsewhere:
    the driver makes no other of it."""

    _left = []  # what could not be unmapped yet, as while a stream captures

    def __init__(self, driver, handle, size, fd=None):
        self.place, self.driver = (_CUDA, driver.device), driver
        self._handle, self._fd = handle, fd
        try:
            self.address = driver.map(handle, size)
        except BaseException:
            driver.call("cuMemRelease", handle)
            raise
        self._finalizer = weakref.finalize(self, _DeviceMemory._end, driver, handle, self.address, size, fd)
        self._finalizer.atexit = False  # the driver frees what a process had

    @staticmethod
    def _end(driver, handle, address, size, fd):
        if fd is not None:
            os.close(fd)
        try:
            driver.unmap(handle, address, size)
        except Error:
            _DeviceMemory._left.append((driver, handle, address, size, None))

    @staticmethod
    def unmap_left():
        """Tries again to unmap what could not be unmapped."""
        for _ in range(len(_DeviceMemory._left)):
            try:
                one = _DeviceMemory._left.pop()
            except IndexError:  # of another thread
                return
            _DeviceMemory._end(*one)

    def fileno(self):
        return self.driver.share(self._handle) if self._fd is None else os.dup(self._fd)

    def wait(self):
        self.driver.wait()

    def copy_in(self, source, size):
        self.driver.copy(self.address, source, size)

    def beside(self, size):
        return _device_memory(self.driver, size)


def _device_memory(driver, size):
    size, _ = driver.round(size)
    return _DeviceMemory(driver, driver.create(size), size)


class _SoftwareMemory:
    """Memory of a software GPU: a file in memory, with the name of its device behind it."""

    place = (_CPU, 0)

    def __init__(self, fd):
        """It takes the descriptor."""
        self._file = os.fdopen(fd, "r+b", buffering=0)
        whole = os.fstat(fd).st_size
        self.size = whole // _GRANULE * _GRANULE
        self._label = os.pread(fd, whole - self.size, self.size)
        self._map = mmap.mmap(fd, self.size)
        self._bytes = (ctypes.c_char * self.size).from_buffer(self._map)
        self.address = ctypes.addressof(self._bytes)

    def fileno(self):
        return os.dup(self._file.fileno())

    def wait(self):
        pass

    def copy_in(self, source, size):
        ctypes.memmove(self.address, source, size)

    def beside(self, size):
        fd = os.memfd_create("ferry-device-memory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        size = max(1, -(-size // _GRANULE)) * _GRANULE
        try:
            os.ftruncate(fd, size + len(self._label))
            os.pwrite(fd, self._label, size)
            fcntl.fcntl(fd, _ADD_SEALS, 1 | _SEAL_SHRINK | 4)  # nobody may change the size
            return _SoftwareMemory(os.dup(fd))
        finally:
            os.close(fd)


def _memory_of(fd, size, device):
    """Memory of a descriptor with at least size bytes. The descriptor stays the caller's."""
    info = os.fstat(fd)
    if stat.S_ISREG(info.st_mode) and info.st_size > 0:  # that of a GPU is no file with a size
        try:
            sealed = fcntl.fcntl(fd, _GET_SEALS) & _SEAL_SHRINK
        except OSError:
            sealed = 0
        if not sealed:
            raise Error("the descriptor is an ordinary file, and no memory of a GPU")
        if info.st_size // _GRANULE * _GRANULE < size:
            raise Error("the memory has %d bytes, and the tensor needs %d" % (info.st_size // _GRANULE * _GRANULE, size))
        return _SoftwareMemory(os.dup(fd))
    driver = _Driver.of(device or 0)
    handle, has = driver.take(fd)
    own = None
    try:
        if device is not None and has != device:
            raise Error("the memory is of device %d, and device %d was asked for" % (has, device))
        driver = _Driver.of(has)
        size, unit = driver.round(size)
        own = os.dup(fd)
    except BaseException:
        driver.call("cuMemRelease", handle)
        raise
    try:
        return _DeviceMemory(driver, handle, size, own)
    except BaseException as err:
        os.close(own)
        if isinstance(err, Error):
            raise Error("map %d bytes, in units of %d bytes, on device %d: %s: the memory has another size than the tensor" % (size, unit, has, err)) from None
        raise


# ---------------------------------------------------------------------------------------------
# Tensors

class Tensor:
    """Memory that can go to another process, as an array in row-major order.

    torch.from_dlpack, cupy.from_dlpack and numpy.from_dlpack take it, any number of times, and
    keep its memory as long as they need it. dtype is a name such as "float32". address is that of
    the first element.

    What they make of it is one memory, and nobody orders their work on it: synchronize one library
    before another one uses what it has written.
    """

    def __init__(self, memory, dtype, shape, read_only=False):
        self._memory = memory
        self.dtype, self.shape, self.read_only = dtype, shape, read_only
        self.nbytes = _size_of(dtype, shape)
        self.address = memory.address if self.nbytes else 0

    def __repr__(self):
        where = "CUDA device %d" % self._memory.place[1] if self._memory.place[0] == _CUDA else "a software GPU"
        return "<ferry_dlpack.Tensor %s %r on %s>" % (self.dtype, self.shape, where)

    def __del__(self, ending=sys.is_finalizing):
        if not ending():
            _sweep()  # capsules that nobody has taken

    def __dlpack_device__(self):
        return self._memory.place

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy:
            raise BufferError("%r is not copied: copy what you make of it" % self)
        if dl_device is not None and tuple(int(x) for x in dl_device) != self._memory.place:
            raise BufferError("%r is not on device %r: copy what you make of it" % (self, dl_device))
        versioned = max_version is not None and max_version[0] >= 1
        if self.read_only and not versioned:
            raise BufferError("%r is read-only, which a tensor without a version cannot say" % self)
        return _capsule_of(self, _Versioned if versioned else _Legacy)


def _check(dtype, shape):
    if dtype not in _TYPES:
        raise Error("elements of type %r are none of %s" % (dtype, ", ".join(sorted(_TYPES))))
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(shape) > 64 or not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 63 for n in shape):
        raise Error("shape %r must have at most 64 whole numbers, none of them negative" % (shape,))
    if _size_of(dtype, shape) >= 1 << 63:
        raise Error("%s %r are more bytes than an address can count" % (dtype, shape))
    return dtype, shape


def _size_of(dtype, shape):
    n = _TYPES[dtype][1] // 8
    for x in shape:
        n *= x
    return n


def allocate(dtype, shape, device=0, like=None):
    """Allocates a tensor on a CUDA device, which can be sent. Its contents are not defined.

    With like, a tensor of this module, the memory is of the same device. A software GPU has no
    number, so that is the way to memory of one.
    """
    _sweep()
    dtype, shape = _check(dtype, shape)
    size = _size_of(dtype, shape)
    if like is not None:
        return Tensor(like._memory.beside(size), dtype, shape)
    return Tensor(_device_memory(_Driver.of(device), size), dtype, shape)


def share(x, device=None, like=None):
    """Copies a tensor of any library into memory that can be sent.

    That of a CUDA device stays on its device. For one of the CPU, page-locked and managed memory
    too, device or like, a tensor of this module, says which device gets it. The tensor must be
    contiguous.
    """
    kind, number = (int(n) for n in x.__dlpack_device__())
    if kind not in (_CPU, _CUDA, _HOST, _MANAGED):
        raise Error("a tensor on device type %d is on neither CUDA nor the CPU: copy it there" % kind)
    to = like._memory.place if like is not None else (_CUDA, number if device is None and kind == _CUDA else device)
    if to[1] is None:
        raise Error("a tensor of the CPU has no GPU to share its memory: name one by device or like")
    if kind == _CUDA and to != (_CUDA, number):
        raise Error("the tensor is on CUDA device %d, and its copy would be on %s: move it there first"
                    % (number, "CUDA device %d" % to[1] if to[0] == _CUDA else "a software GPU"))
    if kind == _MANAGED and to[0] == _CPU:
        raise Error("a tensor of managed memory cannot be copied to a software GPU: move it to the CPU first")
    arguments = {"stream": 1} if kind in (_CUDA, _MANAGED) else {}  # the legacy default stream, as cuMemcpy
    try:
        capsule = x.__dlpack__(max_version=(1, 3), **arguments)
    except TypeError:  # an older library
        capsule = x.__dlpack__(**arguments)
    with _Taken(capsule) as source:
        copied = allocate(source.dtype, source.shape, to[1], like)
        if copied.nbytes:
            copied._memory.copy_in(source.address, copied.nbytes)
        return copied


class _Taken:
    """A capsule of another library, which is taken and then deleted."""

    def __init__(self, capsule):
        for kind, name in _NAMES.items():
            if _capsule_is_valid(capsule, name):
                self._x = kind.from_address(_capsule_pointer(capsule, name))
                break
        else:
            raise Error("%r is no capsule with a DLPack tensor that nobody has taken" % (capsule,))
        if kind is _Versioned and self._x.major != 1:
            raise Error("the tensor is of DLPack %d.%d: ask for 1.x" % (self._x.major, self._x.minor))
        self._used = b"used_" + name
        self._capsule = capsule

    def __enter__(self):
        t = self._x.tensor
        if _capsule_set_name(self._capsule, _used_names[self._used]):
            raise Error("cannot take the capsule")
        try:
            if not 0 <= t.ndim <= 64:
                raise Error("the tensor has %d dimensions, must be 0 to 64" % t.ndim)
            self.shape = tuple(t.shape[i] for i in range(t.ndim))
            strides = [t.strides[i] for i in range(t.ndim)] if t.strides else _row_major(self.shape)
            self.dtype = _TYPE_NAMES.get((t.code, t.bits))
            if self.dtype is None or t.lanes != 1:
                raise Error("elements of code %d with %d bits and %d lanes are of no type of this module" % (t.code, t.bits, t.lanes))
            if 0 not in self.shape and any(n > 1 and s != want for n, s, want in zip(self.shape, strides, _row_major(self.shape))):
                raise Error("the elements of shape %r with strides %r do not follow each other: make it contiguous" % (self.shape, tuple(strides)))
            self.address = (t.data or 0) + t.byte_offset
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._x.deleter:
            self._x.deleter(ctypes.addressof(self._x))


# PyCapsule_SetName keeps the address of the name.
_used_names = {b"used_" + name: b"used_" + name for name in _NAMES.values()}


# ---------------------------------------------------------------------------------------------
# The socket: 4 bytes with the length of the text, with which the descriptor comes, and the text

_MOST = 4096


def send(sock, tensor):
    """Sends a tensor over a Unix socket, for dlpack.Receive or receive. It waits for its device.

    What is sent is the memory, not a copy: the other process may change it from now on.
    """
    text = json.dumps({"dtype": tensor.dtype, "shape": list(tensor.shape)}).encode()
    tensor._memory.wait()
    fd = tensor._memory.fileno()
    try:
        socket.send_fds(sock, [struct.pack(">I", len(text))], [fd])
        sock.sendall(text)
    finally:
        os.close(fd)


def receive(sock, device=None):
    """Receives a tensor that dlpack.Send or send has sent over a Unix socket.

    Nothing that came is trusted: the driver says how large the memory is, and of which device. With
    device, the number of a CUDA device in this process, memory of another one is refused.
    """
    _sweep()
    fds = []
    try:
        length, = struct.unpack(">I", _exactly(sock, 4, fds, True))
        if length > _MOST:
            raise Error("a message of %d bytes is too long: that of a tensor has at most %d" % (length, _MOST))
        text = _exactly(sock, length, fds)
        try:
            message = json.loads(text)
            dtype, shape = message["dtype"], message["shape"]
            if not isinstance(dtype, str) or not isinstance(shape, list):
                raise ValueError("no name and no list")
        except (ValueError, KeyError, TypeError, RecursionError) as err:
            raise Error("the message says nothing about a tensor: %s" % err) from None
        dtype, shape = _check(dtype, shape)
        if len(fds) != 1:
            raise Error("the message came with %d descriptors, and a tensor has 1" % len(fds))
        try:
            return Tensor(_memory_of(fds[0], _size_of(dtype, shape), device), dtype, shape)
        except Error as err:
            raise Error("receive %s %r: %s" % (dtype, shape, err)) from None
    finally:
        for fd in fds:
            os.close(fd)


def _exactly(sock, n, fds, first=False):
    """Reads n bytes, and adds the descriptors that come with them."""
    data = b""
    while len(data) < n:
        part, control, _, _ = sock.recvmsg(n - len(data), socket.CMSG_SPACE(4 * 16), socket.MSG_CMSG_CLOEXEC)
        for level, kind, rights in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.extend(struct.unpack("%di" % (len(rights) // 4), rights[:len(rights) // 4 * 4]))
        if not part:
            raise Error("the socket was closed" + ("" if first and not data else " within a message"))
        data += part
    return data
