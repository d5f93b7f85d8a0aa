package simt

import "github.com/ferrygpu/ferry/softgpu/internal/kernelrace"

// hostAccess is an access of a thread that conflicts with one of the host.
type hostAccess struct {
	x      *execution
	in     *inst
	block  uint64
	thread int
	addr   uint64
}

// stale notes that a lane repeats a weak load of memory that has changed.
func (x *execution) stale(w *warp, in *inst, lane int, addr, value uint64, p uintptr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	by := hostAccess{x, in, w.b.number, w.index*warpSize + lane, addr}
	if x.staleAt == nil {
		x.staleAt = &by
	}
	if _, own := x.written[p&^7]; x.l.Check && !own && len(x.written) < maxWritten {
		x.addHost(kernelrace.HostWrote, &by, value)
	}
}

// maxWritten is how many words of mapped memory are known that the launch itself has written.
const maxWritten = 1 << 16

// wrote notes that the launch writes n bytes at p.
func (x *execution) wrote(p uintptr, n uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.written == nil {
		x.written = map[uintptr]struct{}{}
	}
	for word := p &^ 7; word < p+uintptr(n) && len(x.written) < maxWritten; word += 8 {
		x.written[word] = struct{}{}
	}
}

// lost notes that the host changed a word between the read and the write of an atomic
// operation.
func (by *hostAccess) lost(value uint64) {
	x := by.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.l.Check {
		x.addHost(kernelrace.HostLost, by, value)
	}
}

// addHost adds a finding, or counts it if the instruction has one. The caller holds mu.
func (x *execution) addHost(sort kernelrace.Sort, by *hostAccess, value uint64) {
	for i := range x.hostFindings {
		if f := &x.hostFindings[i]; f.Sort == sort && f.Second.Line == by.in.src.Pos.Line {
			f.Count++
			return
		}
	}
	side := by.side()
	side.Value, side.Known = value, true
	x.hostFindings = append(x.hostFindings, Finding{
		Sort: sort, Second: side, Addr: by.addr, Bytes: int(by.in.mem.size), Missing: missingForHost[sort], Count: 1,
	})
}

var missingForHost = map[kernelrace.Sort]string{
	kernelrace.HostWrote: "ld.volatile, ld.relaxed.sys or ld.acquire.sys: the host has changed these bytes, and a weak load may return the old ones for ever",
	kernelrace.HostLost:  "native host atomics, which this device lacks: the host has changed the word between the operation's read and its write, and the host's update is lost; use two words",
}

func (by *hostAccess) side() FindingSide {
	var kind kernelrace.Kind
	if by.in.mem.atomic {
		kind = kernelrace.Write | kernelrace.Atomic
	}
	return by.x.side(by.in, by.block, uint32(by.thread), kind)
}
