package dlpack_test

import (
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/dlpack"
	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/test/ctest"
)

// Unsafe: the addresses are those of slices that stay until the tests end, and of C's memory.

// peer is a library in C, which makes and uses tensors.
type peer struct {
	make, set, setDim, get, dim, stride, layout, deleted, axpb, delete, deleteOnThread, deleteAll, heap uintptr
}

// Fields of a tensor, in the order of peer.c.
const (
	fieldMajor = iota
	fieldMinor
	fieldContext
	fieldDeleter
	fieldFlags
	fieldData
	fieldDeviceType
	fieldDeviceID
	fieldNdim
	fieldType
	fieldShape
	fieldStrides
	fieldByteOffset
	fieldSize
)

// theLibrary is the library, once a test has loaded it. It stays open until the process ends.
var theLibrary struct {
	sync.Mutex
	peer *peer
}

// loadPeer returns the library. It skips the test where there is no C compiler.
func loadPeer(t testing.TB) *peer {
	t.Helper()
	theLibrary.Lock()
	defer theLibrary.Unlock()
	if theLibrary.peer != nil {
		return theLibrary.peer
	}
	l := must(dl.Open(ctest.Library(t, filepath.Join("testdata", "peer.c"), "libpeer.so")))(t)
	p := new(peer)
	for name, at := range map[string]*uintptr{"make": &p.make, "set": &p.set, "set_dim": &p.setDim, "get": &p.get, "dim": &p.dim,
		"stride": &p.stride, "layout": &p.layout, "deleted": &p.deleted, "axpb": &p.axpb, "delete": &p.delete,
		"delete_on_thread": &p.deleteOnThread, "delete_all": &p.deleteAll, "heap": &p.heap} {
		*at = must(l.Symbol("peer_" + name))(t)
	}
	theLibrary.peer = p
	return p
}

// tensor makes a tensor of one dimension. data is 0 for memory of the library.
func (p *peer) tensor(data uint64, n int, typ dlpack.Type, device, id int) dlpack.Tensor {
	return dlpack.Tensor(dl.Call(p.make, uintptr(data), uintptr(n), uintptr(typ), uintptr(device), uintptr(id)))
}

// with changes a field of a tensor.
func (p *peer) with(t dlpack.Tensor, field int, value uint64) dlpack.Tensor {
	dl.Call(p.set, uintptr(t), uintptr(field), uintptr(value))
	return t
}

// withDims changes the shape and the strides: pairs of both.
func (p *peer) withDims(t dlpack.Tensor, dims ...[2]int) dlpack.Tensor {
	p.with(t, fieldNdim, uint64(len(dims)))
	for i, d := range dims {
		dl.Call(p.setDim, uintptr(t), uintptr(i), uintptr(d[0]), uintptr(d[1]))
	}
	return t
}

func (p *peer) field(t dlpack.Tensor, field int) int64 {
	return int64(dl.Call(p.get, uintptr(t), uintptr(field)))
}

// dims returns the shape and the strides of a tensor, as pairs.
func (p *peer) dims(t dlpack.Tensor) (all [][2]int) {
	for i := range p.field(t, fieldNdim) {
		all = append(all, [2]int{int(dl.Call(p.dim, uintptr(t), uintptr(i))), int(dl.Call(p.stride, uintptr(t), uintptr(i)))})
	}
	return all
}

// layoutOf returns where field i is, for the C compiler.
func (p *peer) layoutOf(i int) int { return int(dl.Call(p.layout, uintptr(i))) }

// heapInUse returns how many bytes of C's heap are in use.
func (p *peer) heapInUse() int { return int(dl.Call(p.heap)) }

// deletions returns how many tensors of the library were deleted.
func (p *peer) deletions() int { return int(dl.Call(p.deleted)) }

// work is what the library does to floats: x = x*a + b.
func (p *peer) work(t dlpack.Tensor, a, b int) int {
	return int(dl.Call(p.axpb, uintptr(t), uintptr(a), uintptr(b)))
}

// deleteOnThreads deletes up to 64 tensors at once, each on a thread of its own.
func (p *peer) deleteOnThreads(all []dlpack.Tensor) int {
	return int(dl.Call(p.deleteAll, uintptr(unsafe.Pointer(unsafe.SliceData(all))), uintptr(len(all))))
}

// deleteElsewhere deletes a tensor on a thread that Go does not know.
func (p *peer) deleteElsewhere(t testing.TB, x dlpack.Tensor) {
	t.Helper()
	if failed := dl.Call(p.deleteOnThread, uintptr(x)); failed != 0 {
		t.Fatalf("pthread: error %d", failed)
	}
}

// addressOf returns the address of a slice.
func addressOf[T any](s []T) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s)))) }

// numberOf returns an address as a number.
func numberOf(p unsafe.Pointer) uint64 { return uint64(uintptr(p)) }
