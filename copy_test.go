package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestCopyKinds copies between all kinds of memory, whole buffers and parts at odd offsets,
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

// copyOnce copies a part and then all, and compares every byte.
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
	fillRandom(data)
	fillRandom(want) // the bytes before the copy
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
		return fmt.Errorf("whole buffer: the bytes differ")
	}
	if got := src.get(t, s); !bytes.Equal(got, data) {
		return fmt.Errorf("the source changed")
	}
	return nil
}

// TestCopyRefused: bad input to operations of streams is an error that says what is wrong.
func TestCopyRefused(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	d, h := must(ferry.Alloc[byte](g, 100))(t), must(ferry.AllocHost[byte](g, 100, nil))(t)
	defer closeAll(t, s, d, h)
	for _, c := range []struct {
		err   error
		parts []string
	}{
		{ferry.Copy(s, d, h.Range(0, 99)), []string{"has 100 elements", "has 99", "copy on stream"}},
		{ferry.Copy(s, d.Range(-1, 99), h), []string{"range [-1:99]", "100"}},
		{ferry.Copy(s, d.Range(5, 4), h), []string{"range [5:4]"}},
		{ferry.Copy(s, d, h.Range(0, 101)), []string{"range [0:101]", "page-locked buffer"}},
		{ferry.Copy(s, d, h.Range(50, 101).Range(0, 1)), []string{"range [50:101]"}},
		{ferry.Copy(s, d, ferry.Pageable(make([]byte, 10)).Range(3, 11)), []string{"range [3:11]", "pageable"}},
		{ferry.Copy(s, d.Range(0, 50), d.Range(1, 51)), []string{"overlap"}},
		{ferry.Copy(s, h.Range(10, 60), h.Range(0, 50)), []string{"overlap"}},
		{ferry.Copy[byte](s, nil, h), []string{"copy to", "nil"}},
		{ferry.Copy[byte](s, d, nil), []string{"copy from", "nil"}},
		{ferry.Copy(s, d, (*ferry.Host[byte])(nil)), []string{"copy from", "nil"}},
		{ferry.Copy(nil, d, h), []string{"no stream given"}},
		{ferry.Copy(&ferry.Stream{}, d, h), []string{"no stream given"}},
		{ferry.Copy(s, ferry.Pageable([]string{"a"}), ferry.Pageable([]string{"b"})), []string{"Go pointers"}},
		{ferry.Fill(s, ferry.Pageable([]byte{1}), 1), []string{"pageable", "loop"}},
		{ferry.Fill(s, d.Range(0, 101), 1), []string{"range [0:101]"}},
		{s.HostFunc(nil), []string{"no function given"}},
		{s.Record(nil), []string{"no event given"}},
		{s.WaitEvent(nil), []string{"no event given"}},
		{(*ferry.Stream)(nil).Wait(context.Background()), []string{"no stream given"}},
	} {
		wantError(t, c.err, cu.ErrorInvalidValue, c.parts...)
	}
	r := h.Range(3, 200)
	wantError(t, sliceError(r.Slice), cu.ErrorInvalidValue, "range [3:200]", "page-locked buffer")
	if r.Len() != 0 || r.Close() != nil {
		t.Error("a range that does not exist has elements, or an error of Close")
	}
	check(t, ferry.Copy(s, d, d)) // onto itself: nothing to do
	check(t, ferry.Copy(s, d.Range(0, 50), d.Range(50, 100)))
	check(t, s.Wait(context.Background()))
}

// TestSynchronous compares Synchronous with what Copy does, for each pair of kinds of memory.
// A copy that is not synchronous returns while the stream is blocked. After one that is, a
// pageable source may be changed, and a pageable destination is written.
func TestSynchronous(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	for _, k := range kindsOf(g) {
		m := must(k.make(g, 4096))(t)
		if k.name == "pageable" {
			continue
		}
		open := gateFor(t, s)
		if err := ferry.Fill(s, m.Memory, 7); err != nil && !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("%s: %v", k.name, err)
		}
		if !open() {
			t.Errorf("%s: Fill waited", k.name)
		}
		check(t, m.close())
	}
	for _, to := range kindsOf(g) {
		for _, from := range kindsOf(g) {
			name := from.name + " to " + to.name
			dst, src := must(to.make(g, 4096))(t), must(from.make(g, 4096))(t)
			want := make([]byte, 4096)
			fillRandom(want)
			check(t, ferry.Copy(s, src.Memory, ferry.Memory[byte](ferry.Pageable(want))))
			check(t, s.Wait(context.Background()))
			if ferry.Synchronous(s, dst.Memory, src.Memory) {
				check(t, ferry.Copy(s, dst.Memory, src.Memory))
				if p, ok := src.Memory.(*ferry.PageableSlice[byte]); ok {
					clear(p.Slice())
				}
				if p, ok := dst.Memory.(*ferry.PageableSlice[byte]); ok && !bytes.Equal(p.Slice(), want) {
					t.Errorf("%s: Copy has returned before the bytes arrived", name)
				}
			} else {
				open := gateFor(t, s)
				check(t, ferry.Copy(s, dst.Memory, src.Memory))
				if !open() {
					t.Errorf("%s: Copy waited, but Synchronous is false", name)
				}
			}
			got := make([]byte, 4096)
			check(t, ferry.Copy(s, ferry.Memory[byte](ferry.Pageable(got)), dst.Memory))
			if !bytes.Equal(got, want) {
				t.Errorf("%s: the bytes differ", name)
			}
			check(t, errors.Join(dst.close(), src.close()))
		}
	}
	device := must(ferry.Alloc[byte](g, 8))(t)
	host := must(ferry.AllocHost[byte](g, 8, nil))(t)
	if !ferry.Synchronous(s, device, ferry.Pageable(make([]byte, 8))) {
		t.Error("a copy from pageable memory is not synchronous")
	}
	if ferry.Synchronous(s, device, ferry.Pageable(host.Slice())) {
		t.Error("a copy from a pageable slice of a page-locked buffer is synchronous")
	}
	if ferry.Synchronous(nil, device, ferry.Pageable(make([]byte, 8))) || ferry.Synchronous(s, device, nil) || ferry.Synchronous(s, device, ferry.Pageable(make([]byte, 7))) {
		t.Error("Synchronous is true for what cannot be copied")
	}
	closeAll(t, device, host, s)
}

// TestTwoDevices copies between two devices, and between one portable buffer and both.
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
	fillRandom(want)
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
