// Copies and fills.
#include "runtime.h"

using namespace ferry;

namespace {

// EITHER is a function of the driver, or its form for the default stream of the thread.
#define EITHER(NAME, FORM) (self.perThread ? CU(NAME##FORM) : CU(NAME))

bool known(enum cudaMemcpyKind kind) { return (unsigned)kind <= cudaMemcpyDefault; }

CUresult copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return EITHER(cuMemcpyHtoD_v2, _ptds)(device(to), from, bytes);
    case cudaMemcpyDeviceToHost:
        return EITHER(cuMemcpyDtoH_v2, _ptds)(to, device(from), bytes);
    case cudaMemcpyDeviceToDevice:
        return EITHER(cuMemcpyDtoD_v2, _ptds)(device(to), device(from), bytes);
    default:
        return EITHER(cuMemcpy, _ptds)(device(to), device(from), bytes);
    }
}

CUresult copyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, CUstream s) {
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return CU(cuMemcpyHtoDAsync_v2)(device(to), from, bytes, s);
    case cudaMemcpyDeviceToHost:
        return CU(cuMemcpyDtoHAsync_v2)(to, device(from), bytes, s);
    case cudaMemcpyDeviceToDevice:
        return CU(cuMemcpyDtoDAsync_v2)(device(to), device(from), bytes, s);
    default:
        return CU(cuMemcpyAsync)(device(to), device(from), bytes, s);
    }
}

// The kinds of memory at the ends of a copy.
CUmemorytype fromType(enum cudaMemcpyKind kind) {
    return kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED : kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}
CUmemorytype toType(enum cudaMemcpyKind kind) {
    return kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED : kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

CUDA_MEMCPY2D rectangle(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width, size_t height, enum cudaMemcpyKind kind) {
    CUDA_MEMCPY2D c = {};
    c.srcMemoryType = fromType(kind), c.srcHost = from, c.srcDevice = device(from), c.srcPitch = fromPitch;
    c.dstMemoryType = toType(kind), c.dstHost = to, c.dstDevice = device(to), c.dstPitch = toPitch;
    c.WidthInBytes = width, c.Height = height;
    return c;
}

bool empty(const struct cudaExtent &e) { return !e.width || !e.height || !e.depth; }

// fill3D fills each layer of a box.
template <class F> CUresult fill3D(const struct cudaPitchedPtr &p, const struct cudaExtent &extent, F layer) {
    for (size_t z = 0; z < extent.depth; z++)
        if (CUresult r = layer(device(p.ptr) + z * p.pitch * p.ysize))
            return r;
    return CUDA_SUCCESS;
}

} // namespace

namespace ferry {

CUresult box(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *c) {
    if (!p || !known(p->kind))
        return CUDA_ERROR_INVALID_VALUE;
    if (p->srcArray || p->dstArray)
        return code(refuse("a copy with an array")), CUDA_ERROR_NOT_SUPPORTED;
    *c = {};
    c->srcXInBytes = p->srcPos.x, c->srcY = p->srcPos.y, c->srcZ = p->srcPos.z;
    c->srcMemoryType = fromType(p->kind), c->srcHost = p->srcPtr.ptr, c->srcDevice = device(p->srcPtr.ptr);
    c->srcPitch = p->srcPtr.pitch, c->srcHeight = p->srcPtr.ysize;
    c->dstXInBytes = p->dstPos.x, c->dstY = p->dstPos.y, c->dstZ = p->dstPos.z;
    c->dstMemoryType = toType(p->kind), c->dstHost = p->dstPtr.ptr, c->dstDevice = device(p->dstPtr.ptr);
    c->dstPitch = p->dstPtr.pitch, c->dstHeight = p->dstPtr.ysize;
    c->WidthInBytes = p->extent.width, c->Height = p->extent.height, c->Depth = p->extent.depth;
    return CUDA_SUCCESS;
}

cudaError_t row(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, CUDA_MEMCPY3D *c) {
    if (!known(kind))
        return cudaErrorInvalidMemcpyDirection;
    *c = {};
    c->srcMemoryType = fromType(kind), c->srcHost = from, c->srcDevice = device(from);
    c->dstMemoryType = toType(kind), c->dstHost = to, c->dstDevice = device(to);
    c->WidthInBytes = bytes, c->Height = c->Depth = 1;
    return cudaSuccess;
}

cudaError_t part(const void *variable, size_t bytes, size_t offset, enum cudaMemcpyKind kind, enum cudaMemcpyKind wrong, void **at) {
    CUdeviceptr p;
    size_t size;
    if (cudaError_t e = symbol(variable, &p, &size))
        return e;
    if (kind == cudaMemcpyHostToHost || kind == wrong || !known(kind))
        return cudaErrorInvalidMemcpyDirection;
    if (offset > size || bytes > size - offset)
        return cudaErrorInvalidValue;
    *at = (void *)(p + offset);
    return cudaSuccess;
}

} // namespace ferry

extern "C" {

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        if (!known(kind))
            return cudaErrorInvalidMemcpyDirection;
        return bytes ? code(copy(to, from, bytes, kind)) : cudaSuccess;
    });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        if (!known(kind))
            return cudaErrorInvalidMemcpyDirection;
        return bytes ? code(copyAsync(to, from, bytes, kind, stream(s))) : cudaSuccess;
    });
}

cudaError_t cudaMemcpy2D(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width, size_t height, enum cudaMemcpyKind kind) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        if (!known(kind))
            return cudaErrorInvalidMemcpyDirection;
        if (width > toPitch || width > fromPitch)
            return cudaErrorInvalidPitchValue;
        CUDA_MEMCPY2D c = rectangle(to, toPitch, from, fromPitch, width, height, kind);
        return width && height ? code(EITHER(cuMemcpy2DUnaligned_v2, _ptds)(&c)) : cudaSuccess;
    });
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t s) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        if (!known(kind))
            return cudaErrorInvalidMemcpyDirection;
        if (width > toPitch || width > fromPitch)
            return cudaErrorInvalidPitchValue;
        CUDA_MEMCPY2D c = rectangle(to, toPitch, from, fromPitch, width, height, kind);
        return width && height ? code(CU(cuMemcpy2DAsync_v2)(&c, stream(s))) : cudaSuccess;
    });
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p) {
    return FERRY_CALL.in([&] {
        CUDA_MEMCPY3D c;
        CUresult r = box(p, &c);
        return r || empty(p->extent) ? r : EITHER(cuMemcpy3D_v2, _ptds)(&c);
    });
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t s) {
    return FERRY_CALL.in([&] {
        CUDA_MEMCPY3D c;
        CUresult r = box(p, &c);
        return r || empty(p->extent) ? r : CU(cuMemcpy3DAsync_v2)(&c, stream(s));
    });
}

cudaError_t cudaMemcpyPeer(void *to, int toDevice, const void *from, int fromDevice, size_t bytes) {
    return FERRY_CALL.in([&] {
        CUcontext a, b;
        if (CUresult r = primary(toDevice, &a))
            return r;
        if (CUresult r = primary(fromDevice, &b))
            return r;
        return bytes ? CU(cuMemcpyPeer)(device(to), a, device(from), b, bytes) : CUDA_SUCCESS;
    });
}

cudaError_t cudaMemcpyPeerAsync(void *to, int toDevice, const void *from, int fromDevice, size_t bytes, cudaStream_t s) {
    return FERRY_CALL.in([&] {
        CUcontext a, b;
        if (CUresult r = primary(toDevice, &a))
            return r;
        if (CUresult r = primary(fromDevice, &b))
            return r;
        return bytes ? CU(cuMemcpyPeerAsync)(device(to), a, device(from), b, bytes, stream(s)) : CUDA_SUCCESS;
    });
}

// The form of drivers before CUDA 13, which tells the number of the copy that failed.
typedef CUresult (*OldBatch)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *, CUstream);

// Many copies in one call. Their attributes have the layout of the driver's.
cudaError_t cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *sizes, size_t count, struct cudaMemcpyAttributes *attributes, size_t *first, size_t attributesCount, cudaStream_t s) {
    return FERRY_CALL.in([&] {
        static const auto before = optional("cuMemcpyBatchAsync_v2") ? nullptr : (OldBatch)optional("cuMemcpyBatchAsync");
        auto *d = (CUdeviceptr *)to, *f = (CUdeviceptr *)from;
        auto *a = (CUmemcpyAttributes *)attributes;
        size_t failed;
        if (before)
            return before(d, f, (size_t *)sizes, count, a, first, attributesCount, &failed, stream(s));
        return CU(cuMemcpyBatchAsync_v2)(d, f, (size_t *)sizes, count, a, first, attributesCount, stream(s));
    });
}

cudaError_t cudaMemset(void *p, int value, size_t bytes) {
    return FERRY_CALL.in([&] { return bytes ? EITHER(cuMemsetD8_v2, _ptds)(device(p), (unsigned char)value, bytes) : CUDA_SUCCESS; });
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s) {
    return FERRY_CALL.in([&] { return bytes ? CU(cuMemsetD8Async)(device(p), (unsigned char)value, bytes, stream(s)) : CUDA_SUCCESS; });
}

cudaError_t cudaMemset2D(void *p, size_t pitch, int value, size_t width, size_t height) {
    return FERRY_CALL.in([&] { return width && height ? EITHER(cuMemsetD2D8_v2, _ptds)(device(p), pitch, (unsigned char)value, width, height) : CUDA_SUCCESS; });
}

cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width, size_t height, cudaStream_t s) {
    return FERRY_CALL.in([&] { return width && height ? CU(cuMemsetD2D8Async)(device(p), pitch, (unsigned char)value, width, height, stream(s)) : CUDA_SUCCESS; });
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr p, int value, struct cudaExtent extent) {
    return FERRY_CALL.in([&] {
        return empty(extent) ? CUDA_SUCCESS : fill3D(p, extent, [&](CUdeviceptr at) { return EITHER(cuMemsetD2D8_v2, _ptds)(at, p.pitch, (unsigned char)value, extent.width, extent.height); });
    });
}

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr p, int value, struct cudaExtent extent, cudaStream_t s) {
    return FERRY_CALL.in([&] {
        return empty(extent) ? CUDA_SUCCESS : fill3D(p, extent, [&](CUdeviceptr at) { return CU(cuMemsetD2D8Async)(at, p.pitch, (unsigned char)value, extent.width, extent.height, stream(s)); });
    });
}

// Variables of the device.

cudaError_t cudaMemcpyToSymbol(const void *variable, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        void *at;
        if (cudaError_t e = part(variable, bytes, offset, kind, cudaMemcpyDeviceToHost, &at))
            return e;
        return bytes ? code(copy(at, from, bytes, kind)) : cudaSuccess;
    });
}

cudaError_t cudaMemcpyToSymbolAsync(const void *variable, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind, cudaStream_t s) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        void *at;
        if (cudaError_t e = part(variable, bytes, offset, kind, cudaMemcpyDeviceToHost, &at))
            return e;
        return bytes ? code(copyAsync(at, from, bytes, kind, stream(s))) : cudaSuccess;
    });
}

cudaError_t cudaMemcpyFromSymbol(void *to, const void *variable, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        void *at;
        if (cudaError_t e = part(variable, bytes, offset, kind, cudaMemcpyHostToDevice, &at))
            return e;
        return bytes ? code(copy(to, at, bytes, kind)) : cudaSuccess;
    });
}

cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *variable, size_t bytes, size_t offset, enum cudaMemcpyKind kind, cudaStream_t s) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        void *at;
        if (cudaError_t e = part(variable, bytes, offset, kind, cudaMemcpyHostToDevice, &at))
            return e;
        return bytes ? code(copyAsync(to, at, bytes, kind, stream(s))) : cudaSuccess;
    });
}

cudaError_t cudaGetSymbolAddress(void **p, const void *variable) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        CUdeviceptr at = 0;
        if (!p)
            return cudaErrorInvalidValue;
        cudaError_t e = symbol(variable, &at, nullptr);
        *p = (void *)at;
        return e;
    });
}

cudaError_t cudaGetSymbolSize(size_t *bytes, const void *variable) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        CUdeviceptr at;
        return bytes ? symbol(variable, &at, bytes) : cudaErrorInvalidValue;
    });
}

} // extern "C"
