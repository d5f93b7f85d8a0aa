package libcuda

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes. So the memory stays alive and in place until C returns, and C keeps
// none of them.

// byValue returns a location as C passes the struct by value: its 8 bytes in one register, on
// amd64 and arm64.
func byValue(l cu.MemLocation) uintptr { return uintptr(l.Type) | uintptr(uint32(l.ID))<<32 }

// MemPrefetchAsyncV2 calls cuMemPrefetchAsync_v2; see [cu.ManagedPlaces].
func (d *Driver) MemPrefetchAsyncV2(ctx cu.Context, dptr cu.DevicePtr, bytes uintptr, location cu.MemLocation, flags uint32, stream cu.Stream) error {
	return d.bound6(procMemPrefetchAsyncV2, ctx, uintptr(dptr), bytes, byValue(location), uintptr(flags), uintptr(stream), 0)
}

// MemAdviseV2 calls cuMemAdvise_v2; see [cu.ManagedPlaces].
func (d *Driver) MemAdviseV2(ctx cu.Context, dptr cu.DevicePtr, bytes uintptr, advice cu.MemAdvice, location cu.MemLocation) error {
	return d.bound6(procMemAdviseV2, ctx, uintptr(dptr), bytes, uintptr(advice), byValue(location), 0, 0)
}

// MemPrefetchBatchAsync calls cuMemPrefetchBatchAsync; see [cu.ManagedPlaces]. Lists whose lengths
// differ do not reach the driver, which gets one length.
func (d *Driver) MemPrefetchBatchAsync(ctx cu.Context, dptrs []cu.DevicePtr, sizes []uintptr, locations []cu.MemLocation, firsts []uintptr, flags uint64, stream cu.Stream) error {
	return d.rangesTo(procMemPrefetchBatchAsync, ctx, dptrs, sizes, locations, firsts, flags, stream)
}

// MemDiscardBatchAsync calls cuMemDiscardBatchAsync; see [cu.ManagedPlaces].
func (d *Driver) MemDiscardBatchAsync(ctx cu.Context, dptrs []cu.DevicePtr, sizes []uintptr, flags uint64, stream cu.Stream) error {
	if len(dptrs) != len(sizes) {
		return cu.ErrorInvalidValue
	}
	return d.bound6(procMemDiscardBatchAsync, ctx, uintptr(unsafe.Pointer(unsafe.SliceData(dptrs))),
		uintptr(unsafe.Pointer(unsafe.SliceData(sizes))), uintptr(len(dptrs)), uintptr(flags), uintptr(stream), 0)
}

// MemDiscardAndPrefetchBatchAsync calls cuMemDiscardAndPrefetchBatchAsync; see [cu.ManagedPlaces].
func (d *Driver) MemDiscardAndPrefetchBatchAsync(ctx cu.Context, dptrs []cu.DevicePtr, sizes []uintptr, locations []cu.MemLocation, firsts []uintptr, flags uint64, stream cu.Stream) error {
	return d.rangesTo(procMemDiscardAndPrefetchBatchAsync, ctx, dptrs, sizes, locations, firsts, flags, stream)
}

// rangesTo calls a function for a list of ranges and their places.
func (d *Driver) rangesTo(id procID, ctx cu.Context, dptrs []cu.DevicePtr, sizes []uintptr, locations []cu.MemLocation, firsts []uintptr, flags uint64, stream cu.Stream) error {
	if len(dptrs) != len(sizes) || len(locations) != len(firsts) {
		return cu.ErrorInvalidValue
	}
	return d.bound11(id, ctx, uintptr(unsafe.Pointer(unsafe.SliceData(dptrs))), uintptr(unsafe.Pointer(unsafe.SliceData(sizes))), uintptr(len(dptrs)),
		uintptr(unsafe.Pointer(unsafe.SliceData(locations))), uintptr(unsafe.Pointer(unsafe.SliceData(firsts))), uintptr(len(locations)),
		uintptr(flags), uintptr(stream), 0, 0, 0)
}
