package ferry_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// TestFillKinds fills all kinds of memory that have an address in kernels.
func TestFillKinds(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing, cu.DeviceAttributeCanUseHostPointerForRegisteredMem)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	for _, k := range kindsOf(g) {
		if k.name == "pageable" {
			continue
		}
		m := must(k.make(g, 1000))(t)
		want := make([]byte, 1000)
		fillRandom(want)
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

// TestFillTwoGPUs: a stream fills memory of another GPU only with peer access, as hardware does.
func TestFillTwoGPUs(t *testing.T) {
	onTwoGPUs(t, func(t *testing.T, a, b *ferry.GPU) {
		s := must(ferry.NewStream(a, nil))(t)
		far := must(ferry.Upload(b, []byte{1, 2, 3, 4}))(t)
		defer closeAll(t, far, s)
		err := ferry.Fill(s, far, 9)
		if errors.Is(err, cu.ErrorPeerAccessUnsupported) {
			t.Skip(err)
		}
		wantError(t, err, cu.ErrorInvalidValue, "another GPU", "EnablePeer")
		var batch ferry.Batch
		check(t, ferry.Fill(&batch, far, 9))
		wantError(t, s.Submit(&batch), cu.ErrorInvalidValue, "another GPU")
		if got := must(ferry.Download(far))(t); got[0] != 1 {
			t.Errorf("a refused fill wrote %v", got)
		}
		if err := a.EnablePeer(b); err != nil {
			t.Skip(err)
		}
		check(t, ferry.Fill(s, far, 9))
		check(t, s.Wait(t.Context()))
		if got := must(ferry.Download(far))(t); got[3] != 9 {
			t.Errorf("filled with peer access: %v", got)
		}
	})
}
