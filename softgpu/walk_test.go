package softgpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
)

func (r *rig) walk(addr uint64, agent Agent, write bool) *Walk {
	r.t.Helper()
	w, err := r.Walk(r.ctx, cu.DevicePtr(addr), agent, write)
	r.ok(err)
	return w
}

// units returns the units of a walk in order, without repetitions.
func (w *Walk) units() string {
	var all []string
	for i, s := range w.Steps {
		if i == 0 || s.Unit != w.Steps[i-1].Unit {
			all = append(all, s.Unit)
		}
	}
	return strings.Join(all, ", ")
}

// last returns the last entry of a unit.
func (w *Walk) last(unit string) Step {
	var last Step
	for _, s := range w.Steps {
		if s.Unit == unit && s.Level != "" {
			last = s
		}
	}
	return last
}

// physical returns the address at which the access arrives, from the text of
// its last step.
func (w *Walk) physical() (at uint64) {
	fmt.Sscanf(w.Steps[len(w.Steps)-1].Text, "%v", &at)
	return at
}

// TestWalkPaths walks every path that an access can take.
func TestWalkPaths(t *testing.T) {
	r := newRig(t, Options{Devices: 2})
	second, err := r.DevicePrimaryCtxRetain(1)
	r.ok(err)
	pinned, _ := r.pinned(1 << 20)
	big, small := uint64(r.alloc(64<<20)), uint64(r.alloc(100))
	far, err := r.MemAlloc(second, 8<<20)
	r.ok(err)
	managed, err := r.MemAllocManaged(r.ctx, 8<<20, cu.MemAttachGlobal)
	r.ok(err)
	m := hostPointer(uint64(managed))
	plain := make([]byte, 64<<10)

	check := func(name string, w *Walk, path, units string, fault bool) {
		t.Helper()
		if !strings.HasPrefix(w.Path, path) || w.units() != units || (w.Fault != "") != fault {
			t.Errorf("%s: path %q, units %s, fault %q; want %q, %s\n%v", name, w.Path, w.units(), w.Fault, path, units, w)
		}
		if sum := 0.0; !fault {
			for _, s := range w.Steps {
				sum += s.Ns
			}
			if sum != w.Ns || w.Sure == "" || sum < 100 {
				t.Errorf("%s: %v ns in all, the steps sum up to %v, sure %q", name, w.Ns, sum, w.Sure)
			}
		}
	}
	check("device", r.walk(big+5<<20, Kernel, false), "device memory", "GPU MMU, memory", false)
	check("small", r.walk(small+99, Kernel, true), "device memory", "GPU MMU, memory", false)
	check("zero-copy", r.walk(addressOf(pinned)+4096, Kernel, false), "zero-copy", "GPU MMU, link, IOMMU, memory", false)
	check("copy", r.walk(addressOf(pinned), CopyEngine, false), "copy from page-locked", "GPU MMU, link, IOMMU, memory", false)
	check("staged", r.walk(addressOf(ptr(plain)), CopyEngine, false), "copy through the driver's", "CPU MMU, driver, GPU MMU, link, IOMMU, memory", false)
	check("pageable", r.walk(addressOf(ptr(plain)), Kernel, false), "fault", "GPU MMU", true)
	check("CPU", r.walk(addressOf(ptr(plain)), CPU, false), "host memory", "CPU MMU, memory", false)
	check("CPU, device memory", r.walk(big, CPU, false), "fault", "CPU MMU", true)
	check("first touch", r.walk(uint64(managed), CPU, true), "managed: first touch", "CPU MMU, driver, CPU MMU, memory", false)

	check("copy between devices", r.walk(uint64(far), CopyEngine, false), "copy between devices", "GPU MMU, link, memory", false)
	denied := r.walk(uint64(far), Kernel, false)
	check("no peer access", denied, "fault", "GPU MMU", true)
	if !strings.HasPrefix(denied.Fault, "nothing at ") {
		t.Errorf("memory of a device without peer access is mapped: %s", denied.Fault)
	}
	r.ok(r.CtxEnablePeerAccess(r.ctx, second, 0))
	check("peer", r.walk(uint64(far), Kernel, false), "peer access", "GPU MMU, link, memory", false)

	r.ok(r.HostAccess(m, 8<<20, true))
	check("managed, host, CPU", r.walk(uint64(managed), CPU, false), "managed, on the host", "CPU MMU, memory", false)
	w := r.walk(uint64(managed)+3<<20, Kernel, true)
	check("managed, host", w, "managed: fault", "GPU MMU, driver, GPU MMU, memory", false)
	r.ok(r.MemPrefetchAsync(r.ctx, managed, 4<<20, 0, 0))
	r.sync(0)
	check("managed, device", r.walk(uint64(managed)+3<<20, Kernel, true), "device memory", "GPU MMU, memory", false)
	check("managed, device, CPU", r.walk(uint64(managed)+3<<20, CPU, false), "managed: page fault", "CPU MMU, driver, CPU MMU, memory", false)
	check("managed, other half", r.walk(uint64(managed)+5<<20, Kernel, true), "managed: fault", "GPU MMU, driver, GPU MMU, memory", false)
	r.ok(r.MemAdvise(r.ctx, managed+4<<20, 4<<20, cu.MemAdviseSetAccessedBy, 0))
	check("managed, mapped", r.walk(uint64(managed)+5<<20, Kernel, true), "managed, on the host, mapped", "GPU MMU, link, IOMMU, memory", false)

	if page := r.walk(big, Kernel, false).last("GPU MMU").Page; page != 2<<20 {
		t.Errorf("device memory has pages of %d bytes, want 2 MiB", page)
	}
	if page := r.walk(uint64(managed), Kernel, false).last("GPU MMU").Page; page != 2<<20 {
		t.Errorf("a whole block of managed memory has pages of %d bytes, want 2 MiB", page)
	}
	if a, b := r.walk(addressOf(pinned)+8192+5, Kernel, false), r.walk(addressOf(pinned)+8192+5, CPU, false); a.physical() != b.physical() || a.physical() == 0 {
		t.Errorf("the device reaches %#x of host memory, the CPU %#x", a.physical(), b.physical())
	}
	if before := r.Now(); r.walk(big, Kernel, false) == nil || r.Now() != before {
		t.Error("a walk took virtual time")
	}
}

// TestWalkOnEveryMachine walks zero-copy and device memory on each profile, and
// paths that only coherent and integrated machines have.
func TestWalkOnEveryMachine(t *testing.T) {
	levels := map[string]string{"h200": "PDE4", "h100-pcie": "PDE4", "gh200": "PDE4", "a100": "PDE3", "rtx-4090": "PDE3", "orin": "PDE3", "jetson-tx2": "PDE3", "fermi-c2050": "PDE", "tesla-c1060": "PDE",
		"gb10": "PDE4", "gb300": "PDE4", "h200-cc": "PDE4", "wsl": "PDE3"}
	for _, p := range machines(t, func(*profile.Profile) bool { return true }) {
		r := newRig(t, Options{Profile: p})
		ctx, err := r.CtxCreate(cu.CtxMapHost, 0)
		r.ok(err)
		r.ctx = ctx
		host, err := r.MemHostAlloc(ctx, 1<<20, cu.MemHostAllocDeviceMap)
		if !p.Has(cu.DeviceAttributeCanMapHostMemory) {
			r.want(cu.ErrorNotSupported, err)
			r.ok(r.CtxDestroy(ctx))
			continue
		}
		r.ok(err)
		at, err := r.MemHostGetDevicePointer(ctx, host, 0)
		r.ok(err)
		w := r.walk(uint64(at)+12345, Kernel, false)
		if w.Fault != "" || w.Steps[0].Level != levels[p.Name] {
			t.Errorf("%s: zero-copy begins at %s, want %s\n%v", p.Name, w.Steps[0].Level, levels[p.Name], w)
		}
		if c := r.walk(addressOf(host)+12345, CPU, false); c.physical() != w.physical() || c.physical() == 0 {
			t.Errorf("%s: the device reaches %#x, the CPU %#x", p.Name, w.physical(), c.physical())
		}
		dev := r.alloc(8 << 20)
		if w := r.walk(uint64(dev)+5<<20, Kernel, true); w.Fault != "" || w.Path != "device memory" {
			t.Errorf("%s: %v", p.Name, w)
		}
		plain := make([]byte, 1<<17)
		w = r.walk(addressOf(ptr(plain))+4, Kernel, true)
		if p.Has(cu.DeviceAttributePageableMemoryAccess) != (w.Fault == "") || w.Fault == "" && w.units() != "GPU MMU, ATS, CPU MMU, link, memory" {
			t.Errorf("%s: ordinary memory: %v", p.Name, w)
		}
		if w := r.walk(addressOf(ptr(plain))+4, CopyEngine, false); w.Fault != "" || w.physical() == 0 {
			t.Errorf("%s: a copy of ordinary memory: %v", p.Name, w)
		}
		unmapped, err := r.MemHostAlloc(ctx, 4096, 0) // without unified addressing kernels cannot use it
		r.ok(err)
		w = r.walk(addressOf(unmapped)+5, CopyEngine, false)
		if c := r.walk(addressOf(unmapped)+5, CPU, false); w.Fault != "" || c.physical() != w.physical() {
			t.Errorf("%s: a copy of unmapped memory:\n%v%v", p.Name, w, c)
		}
		r.ok(r.CtxDestroy(ctx))
	}
}

// TestWalksAtRandom allocates and frees at random. Walks reach live
// allocations, and no two allocations share a physical byte. Walks to freed
// memory fault.
func TestWalksAtRandom(t *testing.T) {
	sample.SkipRace(t)
	for _, name := range []string{"h200", "gh200", "tesla-c1060"} {
		p := named(t, name)
		r := newRig(t, Options{Profile: p})
		rng := rand.New(rand.NewPCG(5, 6))
		type allocation struct {
			addr, size uint64
			free       func() error
		}
		var live []allocation
		for range 60 {
			if len(live) > 12 || len(live) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(live))
				dead := live[i]
				live = append(live[:i], live[i+1:]...)
				r.ok(dead.free())
				w := r.walk(dead.addr+rng.Uint64N(dead.size), Kernel, false)
				if w.Fault == "" && !(w.Path != "device memory" && p.Has(cu.DeviceAttributePageableMemoryAccess)) {
					t.Fatalf("%s: freed memory is reached:\n%v", name, w)
				}
				if w.Fault != "" && !strings.Contains(w.Fault, "[") && !strings.Contains(w.Fault, "neighbouring") {
					t.Fatalf("%s: the fault does not say where the walk stops: %s", name, w.Fault)
				}
				continue
			}
			n := 1 + rng.Uint64N(5<<20)
			switch kind := rng.IntN(4); {
			case kind == 0 && r.uva:
				h, err := r.MemHostAlloc(r.ctx, uintptr(n), 0)
				r.ok(err)
				live = append(live, allocation{addressOf(h), n, func() error { return r.MemFreeHost(r.ctx, h) }})
			case kind == 1 && p.Has(cu.DeviceAttributeManagedMemory):
				m, err := r.MemAllocManaged(r.ctx, uintptr(n), cu.MemAttachGlobal)
				r.ok(err)
				r.ok(r.MemsetD8(r.ctx, m, 1, uintptr(1+rng.Uint64N(n))))
				r.sync(0)
				live = append(live, allocation{uint64(m), n, func() error { return r.MemFree(r.ctx, m) }})
			default:
				if kind == 2 {
					n = 1 + n%4096
				}
				dev := r.alloc(uintptr(n))
				live = append(live, allocation{uint64(dev), n, func() error { return r.MemFree(r.ctx, dev) }})
			}
			owners := map[string]int{}
			for i, x := range live {
				for _, off := range []uint64{0, x.size - 1, rng.Uint64N(x.size)} {
					w := r.walk(x.addr+off, Kernel, false)
					if w.Fault != "" {
						t.Fatalf("%s: %d bytes into %d: %v", name, off, x.size, w)
					}
					space := "device"
					if strings.Contains(w.Steps[len(w.Steps)-1].Text, "host memory") {
						space = "host"
					}
					key := fmt.Sprintf("%s %#x", space, w.physical())
					if j, taken := owners[key]; taken && j != i {
						t.Fatalf("%s: %s belongs to two allocations", name, key)
					}
					owners[key] = i
				}
			}
		}
		if host, _, video := r.frames.Used(0); host > 512<<20 || video > 512<<20 {
			t.Errorf("%s: frames up to %#x and %#x: frames of freed memory are not reused", name, host, video)
		}
	}
}

// The next walk reclaims the frames of freed memory.
func TestFramesAreUsedAgain(t *testing.T) {
	r := newRig(t, Options{})
	for range 20 {
		p, _ := r.pinned(4 << 20)
		dev := r.alloc(4 << 20)
		r.walk(addressOf(p), Kernel, false)
		r.walk(uint64(dev), Kernel, false)
		r.ok(r.MemFreeHost(r.ctx, p))
		r.ok(r.MemFree(r.ctx, dev))
	}
	if host, bus, video := r.frames.Used(0); max(host, bus, video) > 8<<20 || min(host, bus, video) < 4<<20 {
		t.Errorf("frames up to %#x, %#x and %#x after twenty allocations one after the other", host, bus, video)
	}
}

// Two registrations in one page lead to one frame.
func TestWalkOfSharedPage(t *testing.T) {
	r := newRig(t, Options{})
	all := bytes.Repeat([]byte{1}, 4*4096) // on the heap, because a stack can move
	b := all[-addressOf(ptr(all))&4095:][:3*4096]
	r.ok(r.MemHostRegister(r.ctx, ptr(b), 4096+100, 0))
	r.ok(r.MemHostRegister(r.ctx, ptr(b[4096+200:]), 5000, 0))
	for _, off := range []uint64{0, 4096 + 50, 4096 + 300, 2*4096 + 10} {
		addr := addressOf(ptr(b)) + off
		if k, c := r.walk(addr, Kernel, true), r.walk(addr, CPU, true); k.Fault != "" || k.physical() != c.physical() {
			t.Errorf("%d bytes in: the device reaches %#x, the CPU %#x\n%v", off, k.physical(), c.physical(), k)
		}
	}
	r.ok(r.MemHostUnregister(r.ctx, ptr(b)))
	r.ok(r.MemHostUnregister(r.ctx, ptr(b[4096+200:])))
}

// Large allocations must not need one table entry for each page.
func TestWalkOfLargeMemory(t *testing.T) {
	r := newRig(t, Options{})
	c := r.handles[uintptr(r.ctx)].(*contextState)
	x := c.newRegion(kindDevice)
	x.base, x.size, x.charge, x.dev = deviceBase+1<<40, 80<<30, 80<<30, c.dev // without bytes behind it
	x.device = x.base
	x.state.Store(stateLive)
	r.space.insert(addressRange{base: x.base, end: x.base + x.size, region: x})
	w := r.walk(x.base+79<<30+1, Kernel, false)
	if w.Fault != "" || w.last("GPU MMU").Page != 2<<20 {
		t.Errorf("%v", w)
	}
	r.space.remove(x)
}

func TestWalkRefused(t *testing.T) {
	r := newRig(t, Options{})
	_, err := r.Walk(12345, 0x1000, Kernel, false)
	r.want(cu.ErrorInvalidContext, err)
	_, err = r.Walk(r.ctx, 0x1000, 9, false)
	r.want(cu.ErrorInvalidValue, err)
	for _, addr := range []uint64{0, 1, 1 << 47, deviceBase, 1<<49 - 1, 1 << 63, ^uint64(0)} {
		for _, agent := range []Agent{Kernel, CopyEngine, CPU} {
			if w := r.walk(addr, agent, true); w.Fault == "" || len(w.Steps) == 0 || w.String() == "" {
				t.Errorf("%v at %#x arrives: %v", agent, addr, w)
			}
		}
	}
	if Of(nil) != nil || Of(r.Driver) != r.Driver {
		t.Error("Of does not find the software GPU")
	}
}

// TestTranslationDocumented checks that the documentation has the walks that
// the examples print.
func TestTranslationDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/softgpu/translation.md")
	if err != nil {
		t.Fatal(err)
	}
	walks := 0
	for _, name := range []string{"example_walk_test.go", "example_walk_unsafe_linux_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, output, _ := strings.Cut(string(text), "\t// Output:\n")
		output, _, _ = strings.Cut(output, "}\n")
		output = strings.ReplaceAll("\n"+output, "\n\t// ", "\n")
		for _, walk := range strings.Split(output, "\n") {
			if strings.Contains(walk, "device 0") || strings.HasPrefix(walk, "  ") {
				walks++
				if !strings.Contains(string(doc), "\n"+walk+"\n") {
					t.Errorf("%s prints a line that the documentation lacks: %s", name, walk)
				}
			}
		}
	}
	if walks < 40 {
		t.Errorf("%d lines compared, want those of four walks", walks)
	}
}
