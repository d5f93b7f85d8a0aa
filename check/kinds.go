package check

import "fmt"

// The kinds of findings.
const (
	Unordered      = "unordered"         // two operations use the same bytes, and nothing orders them
	HostInFlight   = "host in flight"    // the host uses bytes that an operation still uses
	FreeInFlight   = "free in flight"    // memory is freed or unregistered while an operation uses it
	UseAfterFree   = "use after free"    // an operation uses memory that was freed
	DoubleFree     = "double free"       // memory is freed twice
	ForeignFree    = "foreign free"      // a call frees memory of another allocating call, or no memory
	OutOfRange     = "out of range"      // a copy or fill goes past the end of memory
	BeforeAlloc    = "before allocation" // stream-ordered memory is used in another stream before its allocation
	AfterFree      = "after free"        // stream-ordered memory is used in another stream, not ordered with its free
	List           = "list"              // copies of one list conflict
	Event          = "event"             // an event of another context, or one that does not exist
	HostFunction   = "host function"     // a driver call within a host function
	Uninitialized  = "uninitialized"     // a copy reads device memory that nothing wrote
	ArgumentType   = "argument type"     // a kernel gets elements of another size than its mangled name says
	Collected      = "collected"         // Go has freed memory that an operation uses
	Unmapped       = "unmapped"          // memory that an operation uses is not mapped any more
	Leak           = "leak"              // memory that was not freed when its context ended
	PageableWaits  = "pageable"          // a note: an asynchronous copy of pageable memory makes the host wait
	KernelArgument = "kernel argument"   // a note: an operation writes a byte whose address a kernel got, unordered
	WriteCombined  = "write-combined"    // a note: the host reads write-combined memory
	unknownPlace   = ""
	hostName       = "the host"
	mendWaitOnHost = "wait for %s on the host before %s: synchronize the stream, or an event recorded behind %s"
)

// side describes one use of memory.
func (d *Driver) side(a *access) *Side {
	s := &Side{Call: a.op.call, Place: d.place(a.op.site), site: a.op.site, Stream: a.op.lane.name, Access: a.mode.String(), Offset: a.x.at - a.m.base, Bytes: a.x.end() - a.x.at}
	if a.op.graph {
		s.Call += " of a graph"
	}
	return s
}

func (d *Driver) place(site int) string {
	if site == 0 {
		return unknownPlace
	}
	return d.sites.Place(site).String()
}

// about fills in the memory of a finding.
func (d *Driver) about(f *Finding, m *memory) {
	f.Memory, f.Made = m.String(), d.place(m.made)
	if m.dead {
		f.Freed = d.place(m.freed)
	}
}

// conflict reports that nothing orders two operations. The caller holds mu.
func (d *Driver) conflict(b, a *access) {
	if d.lost.Load() {
		return
	}
	f := Finding{Kind: Unordered, First: d.side(b), Second: d.side(a), What: "two streams use the same bytes, and at least one writes them"}
	d.about(&f, a.m)
	from, to := b.op.lane.name, a.op.lane.name
	f.Missing = fmt.Sprintf("nothing orders %s before %s%s", from, to, d.why(b, a.op.lane.waits))
	f.Mend = fmt.Sprintf("record an event in %s behind %s, and let %s wait for it before %s", from, f.First.Place, to, f.Second.Place)
	switch {
	case (a.gets(b) || b.gets(a)) && d.exact:
		return // what kernels access is known: see Options.Check of package softgpu
	case a.gets(b) || b.gets(a):
		f.Kind, f.Note, f.What = KernelArgument, true, "an operation writes a byte whose address a kernel got, and nothing orders them: it is a fault if the kernel uses the byte"
	case b.mode == makes:
		f.Kind, f.What = BeforeAlloc, "a stream uses memory that another stream allocates, and may do so before the allocation"
	case a.mode == frees || b.mode == frees:
		f.Kind, f.What = AfterFree, "a stream frees memory that another stream uses, and nothing orders them"
	case b.op.early:
		f.What = "a stream uses what a copy from pageable memory writes: the copy has returned, but its bytes may not have arrived"
	}
	d.report(f)
}

// hostConflict reports that the host uses bytes in flight. The caller holds mu.
func (d *Driver) hostConflict(c *call, b *access, x box, how mode) {
	f := Finding{Kind: HostInFlight, First: d.side(b), What: "the host uses bytes that an operation in flight uses",
		Second: &Side{Call: c.name, Place: d.place(c.site), site: c.site, Access: how.String(), Offset: x.at - b.m.base, Bytes: x.end() - x.at}}
	d.about(&f, b.m)
	f.Missing = fmt.Sprintf("the host has not waited for %s%s", b.op.lane.name, d.why(b, d.orders.hosts))
	f.Mend = fmt.Sprintf(mendWaitOnHost, b.op.call, f.Second.Place, f.First.Place)
	d.report(f)
}

// freedInFlight describes a free of memory that an operation uses. The caller holds mu.
func (d *Driver) freedInFlight(c *call, b *access) Finding {
	f := Finding{Kind: FreeInFlight, First: d.side(b), Second: &Side{Call: c.name, Place: d.place(c.site), site: c.site, Access: "frees"},
		What: "memory is freed while an operation uses it: today's drivers wait in this call, CUDA does not promise that"}
	if c.name == "cuMemUnmap" {
		f.What = "memory is unmapped while an operation uses it: the driver does not wait, and a kernel ends with an illegal address"
	}
	d.about(&f, b.m)
	f.Missing = fmt.Sprintf("the host has not waited for %s%s", b.op.lane.name, d.why(b, d.orders.hosts))
	f.Mend = fmt.Sprintf(mendWaitOnHost, b.op.call, f.Second.Place, f.First.Place)
	return f
}

// why explains why an access is not ordered, if the stream waited for an event that does not
// cover it. It returns "" if there is no such event.
func (d *Driver) why(b *access, waits []wait) string {
	for i := len(waits) - 1; i >= 0; i-- {
		w := &waits[i]
		at := fmt.Sprintf("; the wait for event %d at %s", w.event.number, d.place(w.site))
		switch {
		case !w.ever:
			return at + " waits for nothing: the event had not been recorded"
		case covers(w.event.before, b.op):
			return at + fmt.Sprintf(" came after the event was recorded again, at %s", d.place(w.meant.site))
		case w.meant.lane == b.op.lane:
			return at + fmt.Sprintf(" stands for what was in the stream at %s, before the operation", d.place(w.meant.site))
		}
	}
	return ""
}

// covers reports whether a record of an event stood for an operation.
func covers(list []record, o *operation) bool {
	for i := range list {
		if list[i].at.At(o.slot) >= o.n {
			return true
		}
	}
	return false
}

// usedAfterFree reports an operation on memory that was freed. The caller holds mu.
func (d *Driver) usedAfterFree(a *access) {
	f := Finding{Kind: UseAfterFree, Second: d.side(a), What: "an operation uses memory that was freed"}
	d.about(&f, a.m)
	f.Mend = fmt.Sprintf("free the memory behind %s", f.Second.Place)
	d.report(f)
}

// writeCombined notes that the host reads memory that the CPU does not cache.
func (d *Driver) writeCombined(c *call, m *memory) {
	f := Finding{Kind: WriteCombined, Note: true, Second: &Side{Call: c.name, Place: d.place(c.site), site: c.site, Access: "reads"},
		What: "the host reads write-combined memory, which the CPU does not cache", Mend: "allocate memory that the host reads without the flag"}
	d.about(&f, m)
	d.report(f)
}

// hostCall reports a driver call within a host function.
func (d *Driver) hostCall(c *call) {
	defer d.write() // before the call, which may never return
	d.mu.Lock()
	defer d.mu.Unlock()
	d.report(Finding{Kind: HostFunction, Second: &Side{Call: c.name, Place: d.place(c.site), site: c.site}, What: "a host function calls the driver, which CUDA forbids: it may wait for itself",
		Mend: "do the call on another goroutine, which the host function tells to"})
}
