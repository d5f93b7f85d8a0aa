package grid

import (
	_ "embed"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/workers"
	"github.com/ferrygpu/ferry/kernels"
)

//go:embed load.ptx
var loadPTX string

//go:embed patterns.ptx
var patternsPTX string

// patternKernels are the kernels of patterns.cu.
var patternKernels = []string{
	"same_word", "passes", "neighbours", "shared_table", "row_sums", "column_sums", "gather", "scatter",
	"histogram", "histogram_shared", "change", "add_up", "write_all", "chase_volatile", "chase",
	"multiply_add", "multiply_add_double", "square_roots", "exact_square_roots", "divide",
	"divide_double", "sines", "convert", "multiply_integers", "divide_integers", "transpose", "multiply",
	"touch", "nothing",
}

// rig has the device and the memory of the current case.
type rig struct {
	g          *ferry.GPU
	d          cu.Driver
	ctx        cu.Context
	stream     cu.Stream
	second     cu.Stream
	event      cu.Event
	stop       cu.Event // the second event of timeByEvents
	functions  map[string]cu.Function
	processors int
	emulated   cu.Emulated // nil on hardware
	closers    []func() error
	touched    byte // keeps the compiler from removing reads of memory
	round      byte // counts samples, so that each has new data
}

func newRig(g *ferry.GPU) (*rig, error) {
	r := &rig{g: g, d: g.Driver(), ctx: g.CUContext(), functions: map[string]cu.Function{}}
	r.emulated = cu.AsEmulated(r.d)
	var err error
	if r.processors, err = g.Attribute(cu.DeviceAttributeMultiprocessorCount); err != nil {
		return nil, err
	}
	for _, s := range []*cu.Stream{&r.stream, &r.second} {
		if *s, err = r.d.StreamCreate(r.ctx, cu.StreamNonBlocking); err != nil {
			return nil, err
		}
	}
	for _, e := range []*cu.Event{&r.event, &r.stop} {
		if *e, err = r.d.EventCreate(r.ctx, cu.EventDefault); err != nil {
			return nil, err
		}
	}
	for text, names := range map[string][]string{
		kernels.PTX: {"copy", "fill", "increment", "vector_add"},
		loadPTX:     {"read_words", "arithmetic", "add_words"},
	} {
		if err := r.load(text, names); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// load loads kernels of a module.
func (r *rig) load(text string, names []string) error {
	m, err := r.d.ModuleLoadData(r.ctx, []byte(text))
	if err != nil {
		return err
	}
	for _, name := range names {
		if r.functions[name], err = r.d.ModuleGetFunction(r.ctx, m, name); err != nil {
			return err
		}
	}
	return nil
}

// release frees the memory of a case in reverse order.
func (r *rig) release() (err error) {
	for i := len(r.closers) - 1; i >= 0; i-- {
		if failed := r.closers[i](); err == nil {
			err = failed
		}
	}
	r.closers = nil
	return err
}

// onRelease adds a function that release calls.
func (r *rig) onRelease(f func() error) { r.closers = append(r.closers, f) }

func (r *rig) sync() error { return r.d.StreamSynchronize(r.ctx, r.stream) }

// device allocates n bytes of device memory and writes them.
func (r *rig) device(n int) (cu.DevicePtr, error) {
	p, err := r.d.MemAlloc(r.ctx, uintptr(n))
	if err != nil {
		return 0, err
	}
	r.onRelease(func() error { return r.d.MemFree(r.ctx, p) })
	if err := r.d.MemsetD8(r.ctx, p, 1, uintptr(n)); err != nil {
		return p, err
	}
	return p, r.d.StreamSynchronize(r.ctx, cu.StreamLegacy) // the rig's streams do not wait for the default stream
}

// devices allocates two buffers of n bytes of device memory.
func (r *rig) devices(n int) (a, b cu.DevicePtr, err error) {
	if a, err = r.device(n); err != nil {
		return 0, 0, err
	}
	b, err = r.device(n)
	return a, b, err
}

// pinned allocates n bytes of page-locked memory and writes them.
func (r *rig) pinned(n int, flags cu.MemHostAllocFlags) (cu.HostPtr, error) {
	p, err := r.d.MemHostAlloc(r.ctx, uintptr(n), flags)
	if err != nil {
		return nil, err
	}
	r.onRelease(func() error { return r.d.MemFreeHost(r.ctx, p) })
	return p, r.write(bytesOf(p, n))
}

// registered allocates n bytes of pageable memory, writes them and registers them.
func (r *rig) registered(n int) (cu.HostPtr, error) {
	p := pointer(r.pageable(n))
	if err := r.d.MemHostRegister(r.ctx, p, uintptr(n), 0); err != nil {
		return nil, err
	}
	r.onRelease(func() error { return r.d.MemHostUnregister(r.ctx, p) })
	return p, nil
}

// page is the page size of the host.
const page = 4 * kib

// pageable allocates n bytes of pageable memory from the start of a page, and writes them.
func (r *rig) pageable(n int) []byte {
	b := make([]byte, n+page)
	skip := page - int(addressOf(b)%page)
	b = b[skip : skip+n : skip+n]
	fill(b, 1)
	return b
}

// managed allocates n bytes of managed memory and does not touch them.
func (r *rig) managed(n int) (cu.DevicePtr, error) {
	p, err := r.d.MemAllocManaged(r.ctx, uintptr(n), cu.MemAttachGlobal)
	if err != nil {
		return 0, err
	}
	r.onRelease(func() error { return r.d.MemFree(r.ctx, p) })
	return p, nil
}

// write writes new data to host memory, like a program before a copy.
func (r *rig) write(b []byte) error {
	r.round++
	if err := r.reportAccess(b, true); err != nil {
		return err
	}
	fill(b, r.round)
	return nil
}

// reportAccess reports the host's access of b to a software GPU.
func (r *rig) reportAccess(b []byte, write bool) error {
	if r.emulated == nil {
		return nil
	}
	return r.emulated.HostAccess(pointer(b), uintptr(len(b)), write)
}

// read reads a byte of every page of b.
func (r *rig) read(b []byte) error {
	if err := r.reportAccess(b, false); err != nil {
		return err
	}
	for i := 0; i < len(b); i += page {
		r.touched += b[i]
	}
	return nil
}

// fill writes b with one core if it fits into caches, else with all cores.
func fill(b []byte, v byte) {
	const cached = 16 * mib
	some := func(first, end int) {
		part := b[first:end]
		for i := range part {
			part[i] = v
		}
	}
	if len(b) <= cached {
		some(0, len(b))
		return
	}
	workers.For(len(b), some)
}

const (
	threads     = 256 // threads per block
	blocksPerSM = 8   // blocks that fill a multiprocessor
)

// launch submits a kernel with one thread per item, but at most as many threads as fill the
// device.
func (r *rig) launch(name string, items int, params []byte) error {
	blocks := max(1, min((items+threads-1)/threads, blocksPerSM*r.processors))
	return r.d.LaunchKernel(r.ctx, r.functions[name], cu.Dim3{X: uint32(blocks), Y: 1, Z: 1}, cu.Dim3{X: threads, Y: 1, Z: 1}, 0, r.stream, params)
}

// launchAndWait launches a kernel and waits for its end.
func (r *rig) launchAndWait(name string, items int, params []byte) error {
	if err := r.launch(name, items, params); err != nil {
		return err
	}
	return r.sync()
}
