package softgpu

import (
	"cmp"
	"fmt"
	"iter"
	"os"
	"slices"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelcost"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// kind is the kind of memory of a region.
type kind uint8

const (
	kindDevice     kind = iota // MemAlloc
	kindPool                   // MemAllocAsync
	kindModule                 // a module's variable
	kindMapped                 // MemMap
	kindHost                   // MemHostAlloc
	kindRegistered             // MemHostRegister
	kindManaged                // MemAllocManaged and managed variables
)

func (k kind) String() string {
	return [...]string{"device allocation", "stream-ordered device allocation", "module variable", "device mapping",
		"page-locked host allocation", "registered host range", "managed allocation"}[k]
}

// shownKind returns the kind of memory for texts about the region. They call memory of
// ferry.AllocHost page-locked, although package pin registers it.
func (r *region) shownKind() kind {
	if r.byPin {
		return kindHost
	}
	return r.kind
}

// onHost reports whether the CPU can read the memory.
func (k kind) onHost() bool { return k >= kindHost }

// region is a range of addresses with one owner: an allocation, a registration
// or a variable.
type region struct {
	kind   kind
	base   uint64 // the address it is known by: the host's for host memory
	device uint64 // the address in kernels, 0 for none
	size   uint64
	data   []byte
	host   cu.HostPtr // nil for device memory

	ctx        *contextState
	dev        *device
	id         uint64
	name       string // of a variable
	mod        *module
	alloc      cu.MemHostAllocFlags
	reg        cu.MemHostRegisterFlags
	byPin      bool // registered by package pin: it is memory of ferry.AllocHost
	shared     bool // known to every context
	backing    *backing
	site       callsite.Place // the line that allocated it, with checks
	charge     uint64         // bytes charged to the device's memory
	slab       *slab
	pool       *pool
	graph      *graphMemory // of memory that a graph allocates when launched
	streamFree *streamFree  // a free in stream order that is queued or done; nil while the region is in use
	managed    *managedState
	mapping    *deviceMapping // of mapped memory
	shares     *os.File       // by which other processes find the memory, nil until there is a handle of it
	opened     *openedMemory  // of memory of another process

	// state only moves forward. Stream-ordered memory is pending from the call
	// until the stream reaches the allocation.
	state       atomic.Int32
	streamFreed atomic.Bool // freed in stream order, and not reused
	copiedIn    uint64      // bytes of device memory copied in since a kernel last used them; guarded by Driver.mu
	dirty       dirty       // of page-locked memory; guarded by Driver.mu
	used        uint64      // the last op that was queued on page-locked memory; guarded by Driver.mu
	seen        [2]seen     // what the host has read and written of it since then; guarded by Driver.mu

	local, remote simt.Segment // as its own device and as a peer sees it
}

const (
	statePending int32 = iota
	stateLive
	stateFreed
)

// touches reports to the race detector that allocating or freeing r in stream
// order writes all of it.
func (r *region) touches(record func(b []byte, write bool)) {
	if len(r.data) <= raceVisible {
		record(r.data, true)
	}
}

func (r *region) live() bool { return r.state.Load() == stateLive }

func (r *region) end() uint64 { return r.base + r.size }

// segments sets what kernels see.
func (r *region) segments(readOnly bool) {
	near, far := kernelcost.CountDevice, kernelcost.CountPeer
	switch {
	case r.kind == kindManaged:
		near, far = kernelcost.CountManaged, kernelcost.CountManaged
	case r.kind.onHost():
		near, far = kernelcost.CountHost, kernelcost.CountHost
	}
	r.local = simt.Segment{Base: r.device, Data: r.data, ReadOnly: readOnly, Counter: near}
	r.remote = simt.Segment{Base: r.device, Data: r.data, ReadOnly: readOnly, Counter: far}
}

// free removes r from the address space. The caller holds Driver.mu.
func (r *region) free() {
	if r.state.Load() == stateFreed {
		return
	}
	d := r.ctx.drv
	delete(r.ctx.regions, r)
	switch {
	case r.graph != nil:
		r.unchargeGraph()
	case r.kind == kindPool && (r.streamFree == nil || !r.streamFree.done):
		r.pool.uncharge(r)
	}
	if !r.kind.onHost() {
		r.dev.memory.freeRegion(r)
		return
	}
	r.state.Store(stateFreed)
	d.space.remove(r)
	d.launches.Forget(r.device, r.size)
	if r.managed != nil {
		r.managed.pages.Free()
	}
	if r.backing != nil {
		d.deferUnmap(r.backing)
	}
}

// seenBy reports whether kernels and copies of c know host memory r.
func (r *region) seenBy(c *contextState) bool {
	return !r.kind.onHost() || r.shared || r.ctx == c
}

// allocHost allocates n bytes of host memory for r.
func (r *region) allocHost(n uint64, what string) error {
	if n > 1<<47 {
		return refuse(cu.ErrorOutOfMemory, what, "it is larger than the address space")
	}
	if err := r.mayTake(n, what); err != nil {
		return err
	}
	align := r.alignment(n)
	b, err := r.ctx.drv.newBacking(roundUp(n, align)+align-pageSize, what)
	if err != nil {
		return err
	}
	if r.kind == kindHost {
		r.ctx.drv.contents.put(b)
	}
	skip := -addressOf(pointerTo(b.data)) & (align - 1)
	r.backing, r.data, r.size = b, b.data[skip:skip+n:skip+n], n
	r.host = pointerTo(r.data)
	r.base = addressOf(r.host)
	return nil
}

// mayTake refuses host memory that the emulated machine or this computer does not have.
func (r *region) mayTake(n uint64, what string) error {
	if r.kind == kindHost {
		return r.ctx.drv.mayLock(n, true, what)
	}
	return r.ctx.drv.mayManage(n, what)
}

// Pages with which the device maps managed memory.
const (
	managedPage  = 64 << 10
	managedBlock = 2 << 20
)

// alignment returns the alignment of an allocation of n bytes: the CPU's page.
// Managed memory is aligned further, so that the device can map it with large
// pages.
func (r *region) alignment(n uint64) uint64 {
	page := max(pageSize, uint64(r.ctx.drv.prof.Host.Page.Value))
	switch {
	case r.kind != kindManaged:
		return page
	case n < managedBlock:
		return max(page, managedPage)
	}
	return managedBlock
}

// Device memory has addresses that no host pointer has. They lie above the 48
// bits of user space, in a window for each device, and within the 49 bits of an
// address on devices.
const (
	deviceBase   = 1 << 48
	deviceWindow = 1 << 44
	aliasOffset  = deviceWindow / 2 // without unified addressing, the window maps host memory from here
)

// addressRange is a range of addresses of a region. A region has two ranges if the
// device knows host memory by another address.
type addressRange struct {
	base, end uint64
	region    *region
	alias     bool // the device's address of host memory
}

// space is the address table: ranges in ascending order, in chunks of up to maxChunk, so
// that a change copies a chunk and the list of chunks. Its readers load lists that are
// never changed. Writers hold Driver.mu and store a new list. No chunk is empty.
type space struct {
	chunks atomic.Pointer[[][]addressRange]
	freed  []freedRange // a ring of the last maxFreed
	next   int
	sites  callsite.Finder
}

// maxChunk is how many ranges a chunk of the address table has at most.
const maxChunk = 512

// freedRange is a range that was freed.
type freedRange struct {
	base, end uint64
	kind      kind
	site      site // the line that freed it
}

const maxFreed = 1024

func (s *space) load() [][]addressRange {
	if p := s.chunks.Load(); p != nil {
		return *p
	}
	return nil
}

// all returns the ranges in ascending order.
func (s *space) all() iter.Seq[addressRange] {
	return func(yield func(addressRange) bool) {
		for _, chunk := range s.load() {
			for _, x := range chunk {
				if !yield(x) {
					return
				}
			}
		}
	}
}

// chunkOf returns the index of the last chunk that begins at or below addr, or -1.
func chunkOf(chunks [][]addressRange, addr uint64) int {
	lo, hi := 0, len(chunks)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if chunks[mid][0].base <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// find returns the range that contains addr.
func (s *space) find(addr uint64) (addressRange, bool) {
	chunks := s.load()
	at := chunkOf(chunks, addr)
	if at < 0 {
		return addressRange{}, false
	}
	ranges := chunks[at]
	lo, hi := 0, len(ranges)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if ranges[mid].base <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if addr >= ranges[lo-1].end {
		return addressRange{}, false
	}
	return ranges[lo-1], true
}

// overlaps returns a range that shares an address with [base, end), if there is
// one.
func (s *space) overlaps(base, end uint64) (addressRange, bool) {
	chunks := s.load()
	for _, ranges := range chunks[max(0, chunkOf(chunks, base)):] {
		i, _ := slices.BinarySearchFunc(ranges, base, func(x addressRange, base uint64) int { return cmp.Compare(x.end, base+1) })
		if i < len(ranges) {
			return ranges[i], ranges[i].base < end
		}
	}
	return addressRange{}, false
}

// reaches returns the first range that a copy from or to host memory must not reach if it
// begins in ordinary memory: any that is not registered. Hardware decides by the first byte, and
// copies ordinary memory up to registered memory and beyond as ordinary memory.
func (s *space) reaches(base, end uint64) (addressRange, bool) {
	for {
		x, ok := s.overlaps(base, end)
		if !ok || x.region.kind != kindRegistered {
			return x, ok
		}
		base = x.end
	}
}

// insert adds a range. If x is the last one it is appended, which writes behind
// the end of the slices that readers have.
func (s *space) insert(x addressRange) {
	chunks := s.load()
	at := max(0, chunkOf(chunks, x.base))
	if len(chunks) == 0 {
		s.replace(0, []addressRange{x})
		return
	}
	ranges := chunks[at]
	i, _ := slices.BinarySearchFunc(ranges, x.base, func(y addressRange, base uint64) int { return cmp.Compare(y.base, base) })
	switch last := at == len(chunks)-1; {
	case i == len(ranges) && last && len(ranges) < maxChunk:
		s.replace(at, append(ranges, x))
	case i == len(ranges) && last:
		s.replace(at, ranges, []addressRange{x})
	case len(ranges) < maxChunk:
		s.replace(at, slices.Insert(slices.Clip(ranges), i, x))
	default:
		all := slices.Insert(slices.Clip(ranges), i, x)
		s.replace(at, slices.Clone(all[:len(all)/2]), slices.Clone(all[len(all)/2:]))
	}
}

// replace replaces a chunk by others.
func (s *space) replace(at int, by ...[]addressRange) {
	old := s.load()
	next := make([][]addressRange, 0, len(old)+len(by))
	next = append(append(next, old[:at]...), by...)
	next = append(next, old[min(at+1, len(old)):]...)
	s.chunks.Store(&next)
}

// remove deletes the ranges of r and records them as freed.
func (s *space) remove(r *region) {
	by := s.freeSite(r)
	for _, addr := range []uint64{r.base, r.device} { // often the same
		chunks := s.load()
		at := chunkOf(chunks, addr)
		if at < 0 {
			continue
		}
		i := slices.IndexFunc(chunks[at], func(x addressRange) bool { return x.region == r && x.base == addr })
		if i < 0 {
			continue
		}
		x := chunks[at][i]
		s.recordFreed(freedRange{x.base, x.end, r.shownKind(), by})
		if len(chunks[at]) == 1 {
			s.replace(at)
			continue
		}
		s.replace(at, slices.Concat(chunks[at][:i], chunks[at][i+1:]))
	}
}

func (s *space) recordFreed(f freedRange) {
	if len(s.freed) < maxFreed {
		s.freed = append(s.freed, f)
		return
	}
	s.freed[s.next] = f
	s.next = (s.next + 1) % maxFreed
}

// known reports whether copies of c know x by this address.
func (x addressRange) known(c *contextState, want side) bool {
	r := x.region
	if r.state.Load() == stateFreed || !r.addressable() {
		return false
	}
	if c.drv.uva {
		return true
	}
	switch {
	case !r.kind.onHost():
		return r.ctx == c && want != sideHost
	case x.alias:
		return r.seenBy(c) && want != sideHost
	}
	return r.seenBy(c) && want != sideDevice
}

// attributes returns the attributes of address addr of x.
func (x addressRange) attributes(c *contextState, addr uint64) cu.PointerAttributes {
	r := x.region
	off := addr - x.base
	a := cu.PointerAttributes{
		Context:    r.ctx.handle,
		MemoryType: cu.MemoryTypeDevice,
		Device:     cu.Device(r.dev.ordinal),
		IsManaged:  r.kind == kindManaged,
		RangeStart: cu.DevicePtr(x.base),
		RangeSize:  uintptr(r.size),
		Mapped:     r.device != 0,
		BufferID:   r.id,
	}
	if r.kind == kindPool || r.kind == kindMapped { // it belongs to the device, not to a context
		a.Context = 0
	}
	if m := r.mapping; m != nil { // as hardware: of the reservation, also where nothing is mapped
		a.RangeStart, a.RangeSize = cu.DevicePtr(m.at.base), uintptr(m.at.size)
	}
	if r.kind.onHost() && r.kind != kindManaged {
		a.MemoryType = cu.MemoryTypeHost
	}
	if r.device != 0 && r.seenBy(c) && r.opensTo(c.dev) {
		a.DevicePointer = cu.DevicePtr(r.device + off)
	}
	if r.kind.onHost() {
		a.HostPointer = hostPointer(r.base + off)
	}
	return a
}

// near describes the memory at or next to addr.
func (s *space) near(addr uint64) string {
	if x, ok := s.find(addr); ok {
		return fmt.Sprintf("%d bytes into %s", addr-x.base, x.String())
	}
	if f, ok := s.findFreed(addr); ok {
		return fmt.Sprintf("%d bytes into %s", addr-f.base, f.String())
	}
	best, text := uint64(1<<30), ""
	look := func(base, end uint64, words string) {
		switch {
		case addr >= end && addr-end < best:
			best = addr - end
			text = fmt.Sprintf("%s past the end of %s", size(addr-end), words)
			if addr == end {
				text = "just past the end of " + words
			}
		case addr < base && base-addr < best:
			best = base - addr
			text = fmt.Sprintf("%s before %s", size(base-addr), words)
		}
	}
	for x := range s.all() {
		look(x.base, x.end, x.String())
	}
	for _, f := range s.freed {
		look(f.base, f.end, f.String())
	}
	if text == "" {
		return "no allocation is near"
	}
	return text
}

func (x addressRange) String() string {
	w := describe(x.region.shownKind(), x.base, x.end)
	if x.region.name != "" {
		w += " (" + x.region.name + ")"
	}
	return w
}

// String also names the call that freed the range.
func (f freedRange) String() string {
	return describe(f.kind, f.base, f.end) + ", freed" + byLine(f.site.place())
}

func describe(k kind, base, end uint64) string {
	return fmt.Sprintf("a %d-byte %v at %#x", end-base, k, base)
}

func (s *space) findFreed(addr uint64) (freedRange, bool) {
	for i := len(s.freed) - 1; i >= 0; i-- { // if several match, any of them will do
		if f := s.freed[i]; addr >= f.base && addr < f.end {
			return f, true
		}
	}
	return freedRange{}, false
}
