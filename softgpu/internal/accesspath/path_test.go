package accesspath

import (
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/profile"
)

const deviceMemory = 1 << 48

// newMachine returns an H200 that has memory.
func newMachine(t *testing.T, memory ...Range) *Machine {
	t.Helper()
	p, err := profile.Named("h200")
	if err != nil {
		t.Fatal(err)
	}
	return &Machine{
		Profile: p, Devices: 1, Unified: true, Window: deviceMemory, HostOffset: 1 << 43, Ranges: slices.Values(memory),
		Near:      func(uint64) string { return "near nothing" },
		Mapping:   func(addr uint64) (writable, mapped bool) { return addr < 1<<40, addr < 1<<41 },
		HugePages: func(base, end uint64) bool { return false }, KnowsMappings: true,
	}
}

// onDevice returns device memory with pages of its own.
func onDevice(base, size uint64) Range {
	o := &Owner{Base: base, Size: size}
	o.Key, o.Pages = o, Pages{o, base, roundUp(size, blockSize)}
	return Range{Base: base, ForDevice: true, Owner: o}
}

func onHost(base, size uint64) Range {
	o := &Owner{Base: base, Size: size, OnHost: true}
	o.Key = o
	return Range{Base: base, ForDevice: true, Owner: o}
}

func access(agent Agent, x Range, off uint64) *Access {
	return &Access{Agent: agent, Addr: x.Base + off, Target: x.Owner, Name: "memory"}
}

// TestLargeMemory: large allocations do not need one table entry for each page.
func TestLargeMemory(t *testing.T) {
	x := onDevice(deviceMemory+1<<40, 80<<30)
	m, f := newMachine(t, x), new(Frames)
	a := access(Kernel, x, 79<<30+1)
	if w := f.Walk(m, a); w.Fault != "" || w.Path != "device memory" || w.Steps[len(w.Steps)-2].Page != 2<<20 {
		t.Errorf("%+v", w)
	}
	if runs := f.newTables(m, a).gpu.Runs(); len(runs) != 1 {
		t.Errorf("80 GiB have %d runs of pages, want 1", len(runs))
	}
}

// TestFramesStay: memory keeps its frames from walk to walk, and freed memory gives them back.
func TestFramesStay(t *testing.T) {
	f, host := new(Frames), onHost(1<<30, 8<<20)
	at := func(m *Machine, x Range) string {
		w := f.Walk(m, access(Kernel, x, 5000))
		if w.Fault != "" {
			t.Fatalf("%+v", w)
		}
		return w.Steps[len(w.Steps)-1].Text
	}
	first := at(newMachine(t, host), host)
	for range 5 {
		dev := onDevice(deviceMemory, 4<<20)
		m := newMachine(t, host, dev)
		at(m, dev)
		if again := at(m, host); again != first {
			t.Errorf("memory has moved from %s to %s", first, again)
		}
	}
	if host, bus, video := f.Used(0); host != 8<<20 || bus != 8<<20 || video != 4<<20 {
		t.Errorf("frames up to %#x, %#x and %#x", host, bus, video)
	}
}

// TestSharedPagesStay: pages that small allocations share stay until the last of these is freed.
func TestSharedPagesStay(t *testing.T) {
	const slab = deviceMemory + 16<<20
	small := func(off uint64) Range {
		o := &Owner{Key: off, Base: slab + off, Size: 100, Pages: Pages{"slab", slab, blockSize}}
		return Range{Base: o.Base, ForDevice: true, Owner: o}
	}
	f, a, b := new(Frames), small(512), small(2048)
	first := f.Walk(newMachine(t, a, b), access(Kernel, b, 4))
	other := onDevice(deviceMemory, 2<<20) // is mapped before the slab, so it gets the first frame that is free
	again := f.Walk(newMachine(t, other, b), access(Kernel, b, 4))
	if !slices.Equal(first.Steps, again.Steps) || first.Fault != "" {
		t.Errorf("a walk changes when an allocation beside it is freed: from %+v to %+v", first, again)
	}
}

// TestDenied: memory that the table maps, but that the agent must not access, is a fault that hardware
// would not detect. Memory without an entry is one that it detects.
func TestDenied(t *testing.T) {
	x := onDevice(deviceMemory, 4<<20)
	a := access(Kernel, x, 64)
	a.Denied = "freed in stream order"
	if w := new(Frames).Walk(newMachine(t, x), a); !strings.Contains(w.Fault, "hardware would not detect") || !strings.Contains(w.Fault, a.Denied) {
		t.Errorf("a mapped page: %q", w.Fault)
	}
	x.ForDevice = false
	if w := new(Frames).Walk(newMachine(t, x), a); !strings.Contains(w.Fault, "nothing at") || !strings.Contains(w.Fault, a.Denied) {
		t.Errorf("no page: %q", w.Fault)
	}
	none := &Access{Agent: CPU, Addr: 1 << 46}
	if w := new(Frames).Walk(newMachine(t), none); w.What != "no memory of this program" || !strings.Contains(w.Fault, "near nothing") {
		t.Errorf("no memory: %+v", w)
	}
}

// TestReadOnly: writes to memory that is read-only are a fault, reads are not.
func TestReadOnly(t *testing.T) {
	x := onDevice(deviceMemory, 4<<20)
	x.Owner.ReadOnly = true
	a := access(Kernel, x, 64)
	if w := new(Frames).Walk(newMachine(t, x), a); w.Fault != "" {
		t.Errorf("a read: %q", w.Fault)
	}
	a.Write = true
	if w := new(Frames).Walk(newMachine(t, x), a); !strings.Contains(w.Fault, "read-only") {
		t.Errorf("a write: %q", w.Fault)
	}
}
