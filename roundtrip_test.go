package ferry_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// bytesKind is a kind of memory under test.
type bytesKind struct {
	name  string
	needs cu.DeviceAttribute // 0 for none
	make  func(*ferry.GPU, int) (bytesMemory, error)
}

// bytesMemory is a buffer of bytes of any kind.
type bytesMemory struct {
	ferry.Memory[byte]
	part  func(i, j int) ferry.Memory[byte]
	slice func() []byte // nil for device memory
	close func() error
}

func hostKind(name string, needs cu.DeviceAttribute, o *ferry.HostOptions) bytesKind {
	return bytesKind{name, needs, func(g *ferry.GPU, n int) (bytesMemory, error) {
		h, err := ferry.AllocHost[byte](g, n, o)
		return hostBytes(h), err
	}}
}

func registeredKind(name string, needs cu.DeviceAttribute, o *ferry.RegisterOptions) bytesKind {
	return bytesKind{name, needs, func(g *ferry.GPU, n int) (bytesMemory, error) {
		h, err := ferry.Register(g, make([]byte, n+3)[3:], o) // at an odd address
		return hostBytes(h), err
	}}
}

func hostBytes(h *ferry.Host[byte]) bytesMemory {
	return bytesMemory{h, func(i, j int) ferry.Memory[byte] { return h.Range(i, j) }, h.Slice, h.Close}
}

var bytesKinds = []bytesKind{
	{"device", 0, func(g *ferry.GPU, n int) (bytesMemory, error) {
		d, err := ferry.Alloc[byte](g, n)
		return bytesMemory{d, func(i, j int) ferry.Memory[byte] { return d.Range(i, j) }, nil, d.Close}, err
	}},
	hostKind("host", 0, nil),
	hostKind("mapped", cu.DeviceAttributeCanMapHostMemory, &ferry.HostOptions{Mapped: true}),
	hostKind("write-combined", 0, &ferry.HostOptions{WriteCombined: true}),
	hostKind("not portable", 0, &ferry.HostOptions{NotPortable: true}),
	registeredKind("registered", cu.DeviceAttributeHostRegisterSupported, nil),
	registeredKind("registered mapped", cu.DeviceAttributeHostRegisterSupported, &ferry.RegisterOptions{Mapped: true}),
	{"managed", cu.DeviceAttributeManagedMemory, func(g *ferry.GPU, n int) (bytesMemory, error) {
		m, err := ferry.AllocManaged[byte](g, n, nil)
		return bytesMemory{m, func(i, j int) ferry.Memory[byte] { return m.Range(i, j) }, m.Slice, m.Close}, err
	}},
	{"plain", 0, func(g *ferry.GPU, n int) (bytesMemory, error) {
		p := ferry.Pageable(make([]byte, n))
		return bytesMemory{p, func(i, j int) ferry.Memory[byte] { return p.Range(i, j) }, p.Slice, func() error { return nil }}, nil
	}},
}

// kindsOf is the kinds that a device has. A driver older than an attribute has
// the kinds that it asks for.
func kindsOf(g *ferry.GPU) []bytesKind {
	var kinds []bytesKind
	for _, k := range bytesKinds {
		if n, err := g.Attribute(k.needs); k.needs == 0 || err != nil || n != 0 {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// set and get are the host's view of memory of any kind.
func (m bytesMemory) set(t testing.TB, s *ferry.Stream, data []byte) {
	t.Helper()
	if m.slice != nil {
		copy(m.slice(), data)
		return
	}
	check(t, ferry.Copy(s, m.Memory, ferry.Pageable(data)))
}

func (m bytesMemory) get(t testing.TB, s *ferry.Stream) []byte {
	t.Helper()
	if m.slice != nil {
		return bytes.Clone(m.slice())
	}
	data := make([]byte, m.Len())
	check(t, ferry.Copy(s, ferry.Pageable(data), m.Memory))
	return data
}

// TestCopyKinds copies between all kinds of memory, whole buffers and odd parts,
// and compares every byte.
func TestCopyKinds(t *testing.T) {
	t.Run("device=test", func(t *testing.T) { testCopyKinds(t, openTest(t)) })
	t.Run("device=soft:h200/schedule=lazy", func(t *testing.T) { testCopyKinds(t, openSoft(t, "h200", softgpu.Lazy)) })
	t.Run("device=soft:h200/schedule=random", func(t *testing.T) { testCopyKinds(t, openSoft(t, "h200", softgpu.Random)) })
	t.Run("device=soft:fermi-c2050", func(t *testing.T) { testCopyKinds(t, openSoft(t, "fermi-c2050", softgpu.Eager)) })
}

func testCopyKinds(t *testing.T, g *ferry.GPU) {
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	sizes := []int{1, 4095, 1<<16 + 1, 1<<20 + 5}
	if testing.Short() {
		sizes = sizes[:3]
	}
	for _, from := range kindsOf(g) {
		for _, to := range kindsOf(g) {
			for _, n := range sizes {
				if err := copyOnce(t, g, s, from, to, n); err != nil {
					t.Errorf("%d bytes from %s to %s: %v", n, from.name, to.name, err)
				}
			}
		}
	}
}

// copyOnce copies all and then a part.
func copyOnce(t *testing.T, g *ferry.GPU, s *ferry.Stream, from, to bytesKind, n int) error {
	src, err := from.make(g, n)
	if err != nil {
		return err
	}
	defer src.close()
	dst, err := to.make(g, n)
	if err != nil {
		return err
	}
	defer dst.close()
	data, want := make([]byte, n), make([]byte, n)
	random(data)
	random(want) // what is there before
	src.set(t, s, data)
	dst.set(t, s, want)

	i, j := n/3, n-n/5
	copy(want[i:j], data[i:j])
	if err := ferry.Copy(s, dst.part(i, j), src.part(i, j)); err != nil {
		return err
	}
	if got := dst.get(t, s); !bytes.Equal(got, want) {
		return fmt.Errorf("range [%d:%d]: the bytes differ", i, j)
	}
	if err := ferry.Copy(s, dst.Memory, src.Memory); err != nil {
		return err
	}
	if got := dst.get(t, s); !bytes.Equal(got, data) {
		return fmt.Errorf("the whole: the bytes differ")
	}
	if got := src.get(t, s); !bytes.Equal(got, data) {
		return fmt.Errorf("the source changed")
	}
	return nil
}

// TestFillKinds fills all kinds that have an address in kernels.
func TestFillKinds(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	for _, k := range kindsOf(g) {
		if k.name == "plain" {
			continue
		}
		m := must(k.make(g, 1000))(t)
		want := make([]byte, 1000)
		random(want)
		m.set(t, s, want)
		check(t, ferry.Fill(s, m.part(7, 900), want[3]))
		for i := 7; i < 900; i++ {
			want[i] = want[3]
		}
		if got := m.get(t, s); !bytes.Equal(got, want) {
			t.Errorf("%s: the bytes differ", k.name)
		}
		check(t, m.close())
	}
}

// TestFillWidths fills elements of all sizes with values that memset can write.
func TestFillWidths(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	fillWidth(t, g, s, int8(-77))
	fillWidth(t, g, s, true)
	fillWidth(t, g, s, uint16(0xbeef))
	fillWidth(t, g, s, float32(3.25))
	fillWidth(t, g, s, int32(-1234567))
	fillWidth(t, g, s, float64(0))
	fillWidth(t, g, s, uint64(0x1234567812345678))
	fillWidth(t, g, s, [3]uint16{9, 9, 9})
	d := must(ferry.Alloc[uint64](g, 5))(t)
	defer closeAll(t, d)
	wantError(t, ferry.Fill(s, d, uint64(1)), cu.ErrorInvalidValue, "8 bytes", "kernel")
}

func fillWidth[T comparable](t *testing.T, g *ferry.GPU, s *ferry.Stream, value T) {
	t.Helper()
	d := must(ferry.Alloc[T](g, 33))(t)
	defer closeAll(t, d)
	h := must(ferry.AllocHost[T](g, 33, nil))(t)
	defer closeAll(t, h)
	check(t, ferry.Fill(s, d, value))
	check(t, ferry.Copy(s, h, d))
	for i, got := range h.Slice() {
		if got != value {
			t.Errorf("%T: element %d is %v, want %v", value, i, got, value)
		}
	}
}

// TestEmpty: nothing is a size like any other.
func TestEmpty(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	for _, from := range kindsOf(g) {
		for _, to := range kindsOf(g) {
			src, dst := must(from.make(g, 0))(t), must(to.make(g, 0))(t)
			check(t, ferry.Copy(s, dst.Memory, src.Memory))
			if src.Len() != 0 || src.Size() != 0 {
				t.Errorf("%s: %d elements, %d bytes", from.name, src.Len(), src.Size())
			}
			if src.slice != nil && (src.slice() == nil || len(src.slice()) != 0) {
				t.Errorf("%s: Slice is %v", from.name, src.slice())
			}
			check(t, src.close())
			check(t, dst.close())
		}
	}
	nothing := must(ferry.Alloc[struct{}](g, 1000))(t)
	if nothing.Len() != 1000 || nothing.Size() != 0 {
		t.Errorf("%d elements, %d bytes", nothing.Len(), nothing.Size())
	}
	check(t, ferry.Fill(s, nothing, struct{}{}))
	closeAll(t, nothing)
	check(t, s.Wait(context.Background()))
}

// TestTwoDevices copies between devices, and from one portable buffer to both.
func TestTwoDevices(t *testing.T) {
	t.Run("device=soft", func(t *testing.T) { testTwoDevices(t, must(ferry.OpenAll("soft:h200*2"))(t)) })
	t.Run("device=cuda", func(t *testing.T) {
		if os.Getenv("FERRY_REQUIRE_GPU") != "1" {
			t.Skip("FERRY_REQUIRE_GPU is not 1")
		}
		all := must(ferry.OpenAll("cuda"))(t)
		if len(all) < 2 {
			closeAll(t, all[0])
			t.Skip("there is one GPU")
		}
		testTwoDevices(t, all[:2])
		for _, g := range all[2:] {
			closeAll(t, g)
		}
	})
}

func testTwoDevices(t *testing.T, all []*ferry.GPU) {
	host := must(ferry.AllocHost[byte](all[0], 5000, nil))(t)
	want := make([]byte, 5000)
	random(want)
	copy(host.Slice(), want)
	s := must(ferry.NewStream(all[1], nil))(t)
	one := must(ferry.Alloc[byte](all[1], 5000))(t)
	zero := must(ferry.Alloc[byte](all[0], 5000))(t)
	check(t, ferry.Copy(s, one, host))
	check(t, ferry.Copy(s, zero, one))
	clear(host.Slice())
	back := must(ferry.NewStream(all[0], nil))(t)
	check(t, zero.Wait(context.Background()))
	check(t, ferry.Copy(back, host, zero))
	if !bytes.Equal(host.Slice(), want) {
		t.Error("the bytes differ")
	}
	lonely := must(ferry.AllocHost[byte](all[0], 5000, &ferry.HostOptions{NotPortable: true}))(t)
	wantError(t, ferry.Copy(s, one, lonely), cu.ErrorInvalidValue, "NotPortable")
	other := must(ferry.Open("soft"))(t)
	stranger := must(ferry.Alloc[byte](other, 5000))(t)
	wantError(t, ferry.Copy(s, one, stranger), cu.ErrorInvalidValue, "another driver")
	closeAll(t, stranger, other, lonely, host, one, zero, s, back, all[0], all[1])
}
