package api

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// farMemory is memory of a pool of GPU b, with what GPU a uses it by.
type farMemory struct {
	a, b  *ferry.GPU
	sa    *ferry.Stream
	k     *ferry.Kernel // increment, on a
	far   *ferry.Device[float32]
	near  *ferry.Device[float32] // of a
	host  *ferry.Host[float32]
	value float32 // of all elements of far
}

const farElements = 3000

// newFar allocates memory of a pool of b, in the order of a stream of b, and fills it.
func newFar(t *testing.T, a, b *ferry.GPU, k *ferry.Kernel, p *ferry.MemPool) *farMemory {
	t.Helper()
	sb := must(ferry.NewStream(b, nil))(t)
	m := &farMemory{a: a, b: b, k: k, sa: must(ferry.NewStream(a, nil))(t), value: 4}
	m.far = must(ferry.AllocAsync[float32](sb, farElements, p))(t)
	m.near = must(ferry.Alloc[float32](a, farElements))(t)
	m.host = must(ferry.AllocHost[float32](a, farElements, nil))(t)
	check(t, ferry.Fill(sb, m.far, m.value))
	check(t, sb.Wait(t.Context()))
	check(t, sb.Close())
	return m
}

func (m *farMemory) close(t *testing.T) {
	t.Helper()
	closeAll(t, m.far, m.near, m.host, m.sa)
}

// uses are the uses of far memory by a that need access to its pool.
func (m *farMemory) uses() map[string]func() error {
	return map[string]func() error{
		"fill": func() error { m.value = 7; return ferry.Fill(m.sa, m.far, 7) },
		"launch": func() error {
			m.value++
			return m.sa.Launch(m.k, ferry.Cover(farElements, 256), m.far, uint64(farElements))
		},
		"copy to":   func() error { m.set(9); return ferry.Copy(m.sa, m.far, m.host) },
		"copy from": func() error { return ferry.Copy(m.sa, m.host, m.far) },
		"copy slice to": func() error {
			m.value = 11
			return ferry.Copy(m.sa, m.far, ferry.Pageable(slices.Repeat([]float32{11}, farElements)))
		},
		"copy slice from": func() error { return ferry.Copy(m.sa, ferry.Pageable(make([]float32, farElements)), m.far) },
		"rectangle": func() error {
			m.set(13)
			return ferry.CopyRect(m.sa, ferry.Rect[float32]{Memory: m.far, Width: 100, Height: 30}, ferry.Rect[float32]{Memory: m.host, Width: 100, Height: 30})
		},
		"copy all": func() error {
			m.set(15)
			return ferry.CopyAll(m.sa, []ferry.Pair[float32]{
				{Dst: m.far.Range(0, 1000), Src: m.host.Range(0, 1000)}, {Dst: m.far.Range(1000, farElements), Src: m.host.Range(1000, farElements)}})
		},
		"batch": func() error {
			m.value = 17
			var batch ferry.Batch
			return errors.Join(ferry.Fill(&batch, m.far, 17), m.sa.Submit(&batch))
		},
		"reader": func() error {
			return m.read(func(r *countedReader) error { return last(ferry.CopyFrom(context.Background(), m.sa, m.far, r)) })
		},
		"parts": func() error {
			return m.read(func(r *countedReader) error {
				return last(ferry.CopyParts(context.Background(), m.sa, []ferry.ReadPart{{Src: r, Dst: ferry.View[byte](m.far)}}, nil))
			})
		},
		"writer": func() error { return last(ferry.CopyTo(context.Background(), m.sa, io.Discard, m.far)) },
		"parts to a writer": func() error {
			return last(ferry.CopyPartsTo(context.Background(), m.sa, io.Discard, []ferry.Memory[byte]{ferry.View[byte](m.far)}, nil))
		},
	}
}

// countedReader counts what is read.
type countedReader struct {
	*bytes.Reader
	reads atomic.Int64
}

func (r *countedReader) Read(p []byte) (int, error) { r.reads.Add(1); return r.Reader.Read(p) }

func (r *countedReader) ReadAt(p []byte, off int64) (int, error) {
	r.reads.Add(1)
	return r.Reader.ReadAt(p, off)
}

// read calls copy with a reader of the next value. If copy fails, it must not have read.
func (m *farMemory) read(copy func(r *countedReader) error) error {
	m.value = 19
	r := &countedReader{Reader: bytes.NewReader(bytes.Repeat(binary.NativeEndian.AppendUint32(nil, math.Float32bits(19)), farElements))}
	err := copy(r)
	if n := r.reads.Load(); err != nil && n > 0 {
		return fmt.Errorf("%d reads before the refusal: %v", n, err)
	}
	return err
}

// set fills the host memory with the next value of the far memory.
func (m *farMemory) set(value float32) {
	m.value = value
	for i := range m.host.Slice() {
		m.host.Slice()[i] = value
	}
}

// copiesBetween copies the far memory to a and back, which needs no access to pools.
func (m *farMemory) copiesBetween(t *testing.T, what string) {
	t.Helper()
	const half = farElements / 2
	check(t, ferry.Fill(m.sa, m.near, 0))
	check(t, ferry.Copy(m.sa, m.near, m.far))
	m.has(t, what+", copied from", m.near, m.value)
	check(t, ferry.Fill(m.sa, m.near, m.value+0.5))
	check(t, ferry.CopyAll(m.sa, []ferry.Pair[float32]{{Dst: m.far.Range(0, half), Src: m.near.Range(0, half)}, {Dst: m.far.Range(half, farElements), Src: m.near.Range(half, farElements)}}))
	check(t, m.sa.Wait(t.Context()))
	m.value += 0.5
	m.has(t, what+", copied to", m.far, m.value)
}

// has checks all elements.
func (m *farMemory) has(t *testing.T, what string, d *ferry.Device[float32], want float32) {
	t.Helper()
	for i, got := range must(ferry.Download(d))(t) {
		if got != want {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got, want)
		}
	}
}

// wantClosed checks that a cannot use the memory, and changes nothing of it.
func (m *farMemory) wantClosed(t *testing.T, what string) {
	t.Helper()
	for use, do := range m.uses() {
		before := m.value
		err := do()
		m.value = before
		if err == nil {
			t.Errorf("%s: %s of a closed pool succeeds", what, use)
		} else if !errors.Is(err, cu.ErrorInvalidValue) && !errors.Is(err, cu.ErrorPeerAccessNotEnabled) {
			t.Errorf("%s: %s: %v", what, use, err)
		}
	}
	check(t, m.sa.Wait(t.Context()))
	m.has(t, what+", after refused uses", m.far, m.value)
	m.copiesBetween(t, what)
}

// wantOpen checks that a can use the memory.
func (m *farMemory) wantOpen(t *testing.T, what string) {
	t.Helper()
	for use, do := range m.uses() {
		if err := errors.Join(do(), m.sa.Wait(context.Background())); err != nil {
			t.Errorf("%s: %s: %v", what, use, err)
			continue
		}
		m.has(t, what+", "+use, m.far, m.value)
	}
	m.copiesBetween(t, what)
}

// accessTo returns how a device can use a pool.
func accessTo(t *testing.T, g *ferry.GPU, pool cu.MemPool, to cu.Device) cu.MemAccessFlags {
	t.Helper()
	return must(g.Driver().MemPoolGetAccess(pool, &cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(to)}))(t)
}

// TestPeerPools: EnablePeer opens the pools of the other GPU, those that exist and those that
// come, with the memory that they have. Close of the last GPU closes them again.
func TestPeerPools(t *testing.T) {
	onTwoGPUs(t, func(t *testing.T, a, b *ferry.GPU) {
		if !must(a.CanAccessPeer(b))(t) {
			t.Skip("the GPUs cannot reach each other")
		}
		standard, err := b.Driver().DeviceGetDefaultMemPool(b.CUDevice())
		if err != nil {
			t.Skip(err)
		}
		again := must(ferry.OpenDriver(a.Driver(), int(a.CUDevice())))(t)
		code, k := load(t, again, "increment")
		before := must(ferry.NewMemPool(b, nil))(t)
		all := map[string]*farMemory{"default pool": newFar(t, again, b, k, nil), "pool before": newFar(t, again, b, k, before)}
		for what, m := range all {
			m.wantClosed(t, what)
		}
		check(t, a.EnablePeer(b))
		after := must(ferry.NewMemPool(b, &ferry.MemPoolOptions{Keep: 1 << 20}))(t)
		all["default pool, memory after"] = newFar(t, again, b, k, nil)
		all["pool before, memory after"] = newFar(t, again, b, k, before)
		all["pool after"] = newFar(t, again, b, k, after)
		for what, m := range all {
			m.wantOpen(t, what)
		}
		opposite, l := load(t, b, "increment")
		back := newFar(t, b, a, l, nil)
		back.wantClosed(t, "the opposite direction")
		back.close(t)
		check(t, a.EnablePeer(b)) // once more
		check(t, a.Close())
		for what, m := range all { // one GPU of the device is left
			m.wantOpen(t, what)
			m.close(t)
		}
		closeAll(t, code, opposite, again)
		if got := accessTo(t, b, standard, a.CUDevice()); got != cu.MemAccessProtNone {
			t.Errorf("the default pool is open after Close: access %d", got)
		}
		reopened := must(ferry.OpenDriver(b.Driver(), int(a.CUDevice())))(t)
		code, k = load(t, reopened, "increment")
		for what, p := range map[string]*ferry.MemPool{"default pool": nil, "pool before": before, "pool after": after} {
			m := newFar(t, reopened, b, k, p)
			m.wantClosed(t, what+" after Close")
			m.close(t)
		}
		closeAll(t, code, reopened, before, after)
	})
}

// TestPeerPoolsOfOthers: a pool that the program has opened itself stays open, and a pool that
// it has made itself stays closed, unless it is the current one.
func TestPeerPoolsOfOthers(t *testing.T) {
	onTwoGPUs(t, func(t *testing.T, a, b *ferry.GPU) {
		d, dev := b.Driver(), b.CUDevice()
		if !must(a.CanAccessPeer(b))(t) {
			t.Skip("the GPUs cannot reach each other")
		}
		standard, err := d.DeviceGetDefaultMemPool(dev)
		if err != nil {
			t.Skip(err)
		}
		props := cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice, LocationID: int32(dev)}
		current, other := must(d.MemPoolCreate(&props))(t), must(d.MemPoolCreate(&props))(t)
		check(t, d.DeviceSetMemPool(dev, current))
		own := []cu.MemAccessDesc{{Location: cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(a.CUDevice())}, Flags: cu.MemAccessProtReadWrite}}
		check(t, d.MemPoolSetAccess(standard, own))
		check(t, a.EnablePeer(b))
		code, k := load(t, a, "increment")
		ofCurrent := newFar(t, a, b, k, nil)
		ofCurrent.wantOpen(t, "current pool")
		check(t, d.DeviceSetMemPool(dev, other))
		ofOther := newFar(t, a, b, k, nil)
		ofOther.wantClosed(t, "a pool of the program")
		check(t, d.MemPoolSetAccess(other, own))
		ofOther.wantOpen(t, "a pool of the program that it opens")
		check(t, d.DeviceSetMemPool(dev, current))
		ofCurrent.close(t)
		ofOther.close(t)
		closeAll(t, code)
		check(t, a.Close())
		for pool, want := range map[cu.MemPool]cu.MemAccessFlags{standard: cu.MemAccessProtReadWrite, other: cu.MemAccessProtReadWrite, current: cu.MemAccessProtNone} {
			if got := accessTo(t, b, pool, a.CUDevice()); got != want {
				t.Errorf("after Close the pool %#x has access %d, want %d (the default pool is %#x)", uint64(pool), got, want, uint64(standard))
			}
		}
		own[0].Flags = cu.MemAccessProtNone
		check(t, errors.Join(d.MemPoolSetAccess(standard, own), d.DeviceSetMemPool(dev, standard), d.MemPoolDestroy(current), d.MemPoolDestroy(other)))
	})
}

// TestPeerPoolsLazily: under each schedule a kernel of a uses memory whose allocation is queued.
func TestPeerPoolsLazily(t *testing.T) {
	gputest.NeedsH200(t, "its peer access")
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		d := softDriver(t, "h200", 2, schedule)
		a, b := must(ferry.OpenDriver(d, 0))(t), must(ferry.OpenDriver(d, 1))(t)
		check(t, a.EnablePeer(b))
		code, k := load(t, a, "increment")
		sa, sb := must(ferry.NewStream(a, nil))(t), must(ferry.NewStream(b, nil))(t)
		far := must(ferry.AllocAsync[float32](sb, farElements, nil))(t)
		check(t, ferry.Fill(sa, far, 2))
		check(t, sa.Launch(k, ferry.Cover(farElements, 256), far, uint64(farElements)))
		m := &farMemory{}
		m.has(t, schedule.String(), far, 3)
		closeAll(t, far, code, sa, sb, a, b)
	}
}

// TestCaptureBetweenGPUs: a graph copies between two GPUs, in which the driver has no peer copy,
// also memory of pools that are open.
func TestCaptureBetweenGPUs(t *testing.T) {
	onTwoGPUs(t, func(t *testing.T, a, b *ferry.GPU) {
		code, k := load(t, a, "increment")
		m := newFar(t, a, b, k, nil)
		plain := must(ferry.Alloc[float32](b, farElements))(t)
		_, err := m.sa.Capture(func(s *ferry.Stream) error { return ferry.Copy(s, m.near, m.far) })
		wantError(t, err, cu.ErrorInvalidValue, "not open", "EnablePeer")
		if err := a.EnablePeer(b); err != nil {
			t.Skip(err)
		}
		for _, far := range []*ferry.Device[float32]{plain, m.far} {
			check(t, ferry.Fill(m.sa, far, 3))
			graph := must(m.sa.Capture(func(s *ferry.Stream) error {
				return errors.Join(ferry.Copy(s, m.near, far), s.Launch(k, ferry.Cover(farElements, 256), m.near, uint64(farElements)), ferry.Copy(s, far, m.near))
			}))(t)
			check(t, errors.Join(graph.Launch(m.sa), graph.Launch(m.sa), m.sa.Wait(t.Context())))
			m.has(t, "after two launches", far, 5)
			closeAll(t, graph)
		}
		m.close(t)
		closeAll(t, plain, code)
	})
}

func TestGPUs(t *testing.T) {
	t.Setenv("FERRY_LIBCUDA", "")
	all, err := ferry.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, d := range all {
		g, err := ferry.Open(d.Spec)
		if err != nil {
			t.Errorf("%s is listed, but Open fails: %v", d.Spec, err)
			continue
		}
		major, err := g.Attribute(cu.DeviceAttributeComputeCapabilityMajor)
		_, total, memErr := g.MemInfo()
		if err != nil || memErr != nil {
			t.Fatal(err, memErr)
		}
		if g.Name() != d.Name || g.Emulated() != d.Emulated || major != d.Major || uint64(total) > d.Memory {
			t.Errorf("%s: the list has %+v; opened, it is %v with capability %d and %d bytes", d.Spec, d, g, major, total)
		}
		version := must(g.Driver().DriverGetVersion())(t)
		if named := len(d.UUID) == len("GPU-00000000-0000-0000-0000-000000000000"); named != (version >= 11040) || d.PCIAddress == "" {
			t.Errorf("%s: UUID %q, PCI address %q, driver of CUDA %d", d.Spec, d.UUID, d.PCIAddress, version)
		}
		if seen[d.UUID] && d.UUID != "" {
			t.Errorf("%s: UUID %s is that of another device", d.Spec, d.UUID)
		}
		seen[d.UUID] = true
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, name := range profile.Names() {
		if !slices.ContainsFunc(all, func(d ferry.GPUInfo) bool { return d.Spec == "soft:"+name }) {
			t.Errorf("soft:%s is not listed", name)
		}
	}
}

func TestGPUsOfBrokenDriver(t *testing.T) {
	if os.Getenv("FERRY_DEVICES_CHILD") != "" {
		all, err := ferry.GPUs()
		fmt.Printf("%d %v\n", len(all), err)
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestGPUsOfBrokenDriver$")
	cmd.Env = append(os.Environ(), "FERRY_DEVICES_CHILD=1", "FERRY_LIBCUDA=/nowhere/libcuda.so.1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d list the NVIDIA GPUs: ", len(profile.Names())); !strings.HasPrefix(string(out), want) || !strings.Contains(string(out), "/nowhere/libcuda.so.1") {
		t.Errorf("got %q, want %q and the path", out, want)
	}
}
