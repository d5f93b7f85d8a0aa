package libcuda

import (
	"structs"
	"sync"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes, or are pinned. So the memory stays alive and in place until C
// returns, and C keeps none of them.

// memcpyAttributes is CUmemcpyAttributes. The location hints are for memory that
// CUDA does not know.
type memcpyAttributes struct {
	_              structs.HostLayout
	srcAccessOrder uint32
	srcHint        [2]int32
	dstHint        [2]int32
	flags          uint32
}

// inStreamOrder lets the driver read sources when the stream reaches the copies
// (CU_MEMCPY_SRC_ACCESS_ORDER_STREAM).
const inStreamOrder = 1

// batchRest has what C reads and writes besides the lists.
type batchRest struct {
	attributes memcpyAttributes
	first      uintptr // attributes apply to the copies from this index on
	failed     uintptr // index of the copy that failed, written by C
}

var batchRests = sync.Pool{New: func() any { return new(batchRest) }}

// MemcpyBatchAsync calls cuMemcpyBatchAsync; see [cu.Copies].
func (d *Driver) MemcpyBatchAsync(ctx cu.Context, dsts, srcs []cu.DevicePtr, sizes []uintptr, stream cu.Stream) error {
	if len(dsts) != len(srcs) || len(dsts) != len(sizes) {
		return cu.ErrorInvalidValue
	}
	rest := batchRests.Get().(*batchRest)
	defer batchRests.Put(rest)
	rest.attributes.srcAccessOrder = inStreamOrder
	return d.bound11(procMemcpyBatchAsync, ctx,
		uintptr(unsafe.Pointer(unsafe.SliceData(dsts))), uintptr(unsafe.Pointer(unsafe.SliceData(srcs))),
		uintptr(unsafe.Pointer(unsafe.SliceData(sizes))), uintptr(len(dsts)),
		uintptr(unsafe.Pointer(&rest.attributes)), uintptr(unsafe.Pointer(&rest.first)), 1,
		uintptr(unsafe.Pointer(&rest.failed)), uintptr(stream), 0, 0)
}
