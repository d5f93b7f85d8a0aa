package dlpack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/dlpack"
	"github.com/ferrygpu/ferry/internal/dl"
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

// theLibrary is the library, or why there is none.
var theLibrary = sync.OnceValues(buildPeer)

// loadPeer returns the library. It skips the test where there is no C compiler.
func loadPeer(t testing.TB) *peer {
	t.Helper()
	p, err := theLibrary()
	if err != nil {
		t.Skip("no library in C to exchange tensors with:", err)
	}
	return p
}

// buildPeer compiles the library. It stays open until the process ends.
func buildPeer() (*peer, error) {
	if !dl.Supported {
		return nil, dl.ErrPlatform
	}
	cc, err := exec.LookPath("gcc")
	if err != nil {
		if cc, err = exec.LookPath("cc"); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "ferry-dlpack-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	so := filepath.Join(dir, "libpeer.so")
	out, err := exec.Command(cc, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread", "-o", so, filepath.Join("testdata", "peer.c")).CombinedOutput()
	if err != nil {
		panic(string(out)) // a compiler that is there must compile it
	}
	l, err := dl.Open(so)
	if err != nil {
		panic(err)
	}
	p := new(peer)
	for name, at := range map[string]*uintptr{"make": &p.make, "set": &p.set, "set_dim": &p.setDim, "get": &p.get, "dim": &p.dim,
		"stride": &p.stride, "layout": &p.layout, "deleted": &p.deleted, "axpb": &p.axpb, "delete": &p.delete,
		"delete_on_thread": &p.deleteOnThread, "delete_all": &p.deleteAll, "heap": &p.heap} {
		if *at, err = l.Symbol("peer_" + name); err != nil {
			panic(err)
		}
	}
	return p, nil
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
