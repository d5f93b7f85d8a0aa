package simt

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
)

// builtins are functions that kernels call and that no module defines.
var builtins map[string]func(w *warp, in *inst)

func init() {
	builtins = map[string]func(w *warp, in *inst){
		"vprintf":      callPrintf,
		"__assertfail": callAssert,
		"malloc":       callMalloc,
		"free":         callFree,
	}
}

// arg returns the value of one lane for argument i of a call.
func (w *warp) arg(c *callSite, i, lane int) uint64 {
	if i >= len(c.args) {
		return 0
	}
	p := c.args[i]
	if p.isReg {
		return w.f.lane(p.reg, lane)
	}
	return loadBytes(w.lane(lane)[int(w.f.local)+p.local:][:p.size])
}

// result stores the result of a call for one lane.
func (w *warp) result(c *callSite, lane int, v uint64) {
	if len(c.results) == 0 {
		return
	}
	p := c.results[0]
	if p.isReg {
		w.f.expandFor(p.reg)[lane] = v
		return
	}
	storeBytes(w.lane(lane)[int(w.f.local)+p.local:][:p.size], v)
}

// peek reads up to len(b) bytes of the generic address space of a lane, and returns
// how many exist.
func (w *warp) peek(lane int, addr uint64, b []byte) int {
	if addr >= localWindow && addr < paramWindow {
		l := w.lane(lane)
		if off := addr - localWindow; off < uint64(len(l)) {
			return copy(b, l[off:])
		}
		return 0
	}
	switch {
	case addr >= sharedWindow && addr < localWindow:
		if off := addr - sharedWindow; off < uint64(len(w.b.shared)) {
			return copy(b, w.b.shared[off:])
		}
	case addr >= paramWindow && addr < codeWindow:
		if p := w.k.x.l.Params; addr-paramWindow < uint64(len(p)) {
			return copy(b, p[addr-paramWindow:])
		}
	default:
		if s := w.k.x.l.Memory.Find(addr); s != nil && s.holds(addr) {
			r := s.ref()
			return r.peek(addr, b)
		}
	}
	return 0
}

// cString reads a string that ends with a zero byte.
func (w *warp) cString(lane int, addr uint64) string {
	var out []byte
	var b [64]byte
	for len(out) < 1<<16 {
		n := w.peek(lane, addr+uint64(len(out)), b[:])
		if n == 0 {
			break
		}
		if end := strings.IndexByte(string(b[:n]), 0); end >= 0 {
			return string(append(out, b[:end]...))
		}
		out = append(out, b[:n]...)
	}
	return string(out)
}

// callPrintf prints for each active lane, in ascending order.
func callPrintf(w *warp, in *inst) {
	c := in.call
	for m := w.active; m != 0; m &= m - 1 {
		lane := trailing(m)
		format := w.cString(lane, w.arg(c, 0, lane))
		s, n := w.format(lane, format, w.arg(c, 1, lane))
		w.k.x.print(s)
		w.result(c, lane, uint64(n))
	}
}

// callAssert ends the launch like a failed assertion.
func callAssert(w *warp, in *inst) {
	c := in.call
	lane := trailing(w.active)
	w.trap(in, w.active, cu.ErrorAssert, 0, 0)
	what := w.cString(lane, w.arg(c, 0, lane))
	file := w.cString(lane, w.arg(c, 1, lane))
	f := w.fault
	f.Op = fmt.Sprintf("assertion `%s` failed at %s", what, callsite.Line(file, int(uint32(w.arg(c, 2, lane)))))
	w.k.x.print(fmt.Sprintf("%s:%d: %s: block: [%d,%d,%d], thread: [%d,%d,%d] Assertion `%s` failed.\n",
		file, uint32(w.arg(c, 2, lane)), w.cString(lane, w.arg(c, 3, lane)),
		f.Block.X, f.Block.Y, f.Block.Z, f.Thread.X, f.Thread.Y, f.Thread.Z, what))
}

// print hands a text of the kernel to the launch, if it wants texts.
func (x *execution) print(text string) {
	if x.l.Printf == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.l.Printf(text)
}

// Heap is the memory of malloc in kernels. Its methods are safe for concurrent use.
type Heap interface {
	// Malloc returns the address of size bytes, 0 if there are none.
	Malloc(size uint64) uint64
	// Free frees what Malloc returned. It reports whether addr is such an address.
	Free(addr uint64) bool
	// Range returns the first address of the heap and its size.
	Range() (base, bytes uint64)
	// Size returns how many bytes an allocation has that begins at addr, 0 if there is none.
	Size(addr uint64) uint64
	// Allocated reports whether n bytes of the heap are in allocations.
	Allocated(addr, n uint64) bool
}

// callMalloc allocates for each active lane, in ascending order.
func callMalloc(w *warp, in *inst) {
	for m := w.active; m != 0; m &= m - 1 {
		lane, addr := trailing(m), uint64(0)
		if h := w.k.x.l.Heap; h != nil {
			addr = h.Malloc(w.arg(in.call, 0, lane))
			if c := w.k.x.checker; c != nil && addr != 0 {
				c.allocated(w, in, lane, addr, h.Size(addr))
			}
		}
		w.result(in.call, lane, addr)
	}
}

// callFree frees for each active lane. An address of 0 has no effect.
func callFree(w *warp, in *inst) {
	for m := w.active; m != 0; m &= m - 1 {
		lane := trailing(m)
		addr := w.arg(in.call, 0, lane)
		h := w.k.x.l.Heap
		if c := w.k.x.checker; c != nil && h != nil {
			if n := h.Size(addr); n > 0 {
				c.freed(w, in, lane, addr, n)
			}
		}
		if addr == 0 || h != nil && h.Free(addr) {
			continue
		}
		w.trap(in, 1<<lane, cu.ErrorLaunchFailed, 0, 0)
		w.fault.Why = fmt.Sprintf("free got %#x, which malloc did not return, or which was freed before", addr)
		return
	}
}

// printBytes is roughly the most that one call of vprintf prints. Without a limit, a
// format with large field widths could ask for any amount. dropped replaces the rest.
const (
	printBytes = 1 << 20
	dropped    = " [the rest, over 1 MiB, was dropped]\n"
)

// format runs C's printf on the arguments at addr, each at its natural alignment. It
// also returns the number of arguments.
func (w *warp) format(lane int, format string, addr uint64) (string, int) {
	var out strings.Builder
	count, at := 0, addr
	next := func(size uint64) uint64 {
		at = (at + size - 1) &^ (size - 1)
		var b [8]byte
		w.peek(lane, at, b[:size])
		at += size
		count++
		return loadBytes(b[:size])
	}
	for len(format) > 0 {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			break
		}
		out.WriteString(format[:i])
		format = format[i:]
		n := 1
		spec := []byte{'%'}
		size := uint64(4)
		for n < len(format) && strings.IndexByte("-+ #0123456789.*hlLqjzt", format[n]) >= 0 {
			switch c := format[n]; c {
			case '*':
				spec = fmt.Appendf(spec, "%d", int32(next(4)))
			case 'l', 'q', 'j', 'z', 't', 'L':
				size = 8
			case 'h':
			default:
				spec = append(spec, c)
			}
			n++
		}
		if n >= len(format) {
			break
		}
		conv := format[n]
		format = format[n+1:]
		w.printArg(&out, lane, spec, conv, size, next)
		if out.Len() > printBytes {
			return out.String() + dropped, count
		}
	}
	out.WriteString(format)
	return out.String(), count
}

// printArg prints one argument.
func (w *warp) printArg(out *strings.Builder, lane int, spec []byte, conv byte, size uint64, next func(uint64) uint64) {
	with := func(verb byte) string { return string(append(spec, verb)) }
	switch conv {
	case '%':
		out.WriteByte('%')
	case 'd', 'i':
		v := int64(next(size))
		if size == 4 {
			v = int64(int32(v))
		}
		fmt.Fprintf(out, with('d'), v)
	case 'u':
		fmt.Fprintf(out, with('d'), next(size))
	case 'x', 'X', 'o':
		fmt.Fprintf(out, with(conv), next(size))
	case 'c':
		fmt.Fprintf(out, with('s'), string([]byte{byte(next(4))}))
	case 's':
		fmt.Fprintf(out, with('s'), w.cString(lane, next(8)))
	case 'p':
		fmt.Fprintf(out, "0x%x", next(8))
	case 'f', 'F', 'e', 'E', 'g', 'G':
		if (conv == 'g' || conv == 'G') && !strings.Contains(string(spec), ".") {
			spec = append(spec, ".6"...)
		}
		fmt.Fprintf(out, with(conv), f64from(next(8)))
	case 'a', 'A':
		fmt.Fprintf(out, with(conv+'x'-'a'), f64from(next(8)))
	default:
		out.Write(append(spec, conv))
	}
}
