package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestCopyKinds copies between all kinds of memory, whole buffers and parts at odd offsets,
// and compares every byte. A sample of the pairs of kinds copies large buffers, too.
func TestCopyKinds(t *testing.T) {
	t.Run("device=test", func(t *testing.T) { testCopyKinds(t, openTest(t)) })
	t.Run("device=soft:h200/schedule=lazy", func(t *testing.T) { testCopyKinds(t, openSoft(t, "h200", softgpu.Lazy)) })
	t.Run("device=soft:h200/schedule=random", func(t *testing.T) { testCopyKinds(t, openSoft(t, "h200", softgpu.Random)) })
	t.Run("device=soft:fermi-c2050", func(t *testing.T) { testCopyKinds(t, openSoft(t, "fermi-c2050", softgpu.Eager)) })
}

func testCopyKinds(t *testing.T, g *ferry.GPU) {
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	const large = 1<<20 + 5
	random := sample.Rand(t)
	for _, from := range kindsOf(g) {
		for _, to := range kindsOf(g) {
			for _, n := range []int{1, 4095, 1<<16 + 1, large} {
				if n == large && !sample.Full() && (testing.Short() || random.IntN(4) != 0) {
					continue
				}
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

// TestCopyFrom fills every kind of memory from a reader, and writes it to a writer.
func TestCopyFrom(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	ctx := context.Background()
	for _, k := range kindsOf(g) {
		for _, n := range []int{0, 5, 100_000, 3 << 20} {
			if n == 0 && k.name == "registered" {
				continue
			}
			what := fmt.Sprintf("%s, %d bytes", k.name, n)
			m := must(k.make(g, n))(t)
			want := make([]byte, n)
			fillRandom(want)
			done, err := ferry.CopyFrom(ctx, s, m.Memory, io.LimitReader(bytes.NewReader(want), int64(n)+1))
			if check(t, err); done != int64(n) {
				t.Errorf("%s: CopyFrom reports %d bytes", what, done)
			}
			var got bytes.Buffer
			done, err = ferry.CopyTo(ctx, s, &got, m.Memory)
			if check(t, err); done != int64(n) || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s: CopyTo reports %d bytes, the writer got %d, or they differ", what, done, got.Len())
			}
			check(t, m.close())
		}
	}
	closeAll(t, s)
}

// TestCopyFromFile: CopyFrom reads a file from its offset on and moves the offset. Where the
// file ends too early the error says so.
func TestCopyFromFile(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	want := make([]byte, 1<<20)
	fillRandom(want)
	path := filepath.Join(t.TempDir(), "data")
	check(t, os.WriteFile(path, want, 0o600))
	f := must(os.Open(path))(t)
	device := must(ferry.Alloc[byte](g, 400_000))(t)
	for i, most := range []int{400_000, 400_000, 248_576} {
		n, err := ferry.CopyFrom(context.Background(), s, device, f)
		if n != int64(most) {
			t.Fatalf("read %d: %d bytes, %v", i, n, err)
		}
		if most == 400_000 {
			check(t, err)
		} else {
			wantError(t, err, io.ErrUnexpectedEOF, "copy from a reader", "byte 248576")
		}
		got := make([]byte, most)
		check(t, ferry.Copy(s, ferry.Pageable(got), device.Range(0, most)))
		if !bytes.Equal(got, want[i*400_000:][:most]) {
			t.Errorf("read %d: the bytes differ", i)
		}
	}
	if at := must(f.Seek(0, io.SeekCurrent))(t); at != 1<<20 {
		t.Errorf("the offset of the file is %d, want %d", at, 1<<20)
	}
	check(t, f.Close())
	closeAll(t, device, s)
}

// hangingReader is a reader whose Read returns when the channel is closed.
type hangingReader chan struct{}

func (r hangingReader) Read(p []byte) (int, error) { <-r; return len(p), nil }

// fullWriter is a writer that has room for its number of bytes.
type fullWriter int

func (w *fullWriter) Write(p []byte) (int, error) {
	n := min(len(p), int(*w))
	*w -= fullWriter(n)
	if n < len(p) {
		return n, io.ErrNoProgress
	}
	return n, nil
}

// TestCopyFromRefused: bad input, a writer that fails, and a reader that hangs when its
// context ends.
func TestCopyFromRefused(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	device := must(ferry.Alloc[byte](g, 300_000))(t)
	host := must(ferry.AllocHost[byte](g, 300_000, nil))(t)
	ctx, zeroes := context.Background(), bytes.NewReader(make([]byte, 300_000))

	_, err := ferry.CopyFrom(ctx, s, device, nil)
	wantError(t, err, cu.ErrorInvalidValue, "no reader")
	_, err = ferry.CopyTo(ctx, s, nil, device)
	wantError(t, err, cu.ErrorInvalidValue, "no writer")
	_, err = ferry.CopyFrom(ctx, nil, device, zeroes)
	wantError(t, err, cu.ErrorInvalidValue, "no stream")
	_, err = ferry.CopyFrom[byte](ctx, s, nil, zeroes)
	wantError(t, err, cu.ErrorInvalidValue, "no buffer")
	_, err = s.Capture(func(s *ferry.Stream) error {
		_, err := ferry.CopyFrom(ctx, s, device, zeroes)
		return err
	})
	wantError(t, err, cu.ErrorStreamCaptureUnsupported, "buffer")

	for _, m := range []ferry.Memory[byte]{device, host} {
		w := fullWriter(150_000)
		n, err := ferry.CopyTo(ctx, s, &w, m)
		wantError(t, err, io.ErrNoProgress, "byte 150000", "copy to a writer")
		if n != 150_000 {
			t.Errorf("CopyTo reports %d bytes, want 150000", n)
		}
	}

	hangs := make(hangingReader)
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	n, err := ferry.CopyFrom(short, s, device, hangs)
	wantError(t, err, context.DeadlineExceeded, "byte 0")
	if n != 0 {
		t.Errorf("CopyFrom reports %d bytes, want 0", n)
	}
	check(t, ferry.Copy(s, device, ferry.Pageable(make([]byte, 300_000)))) // other copies still work
	close(hangs)
	closeAll(t, device, host, s)
	_, err = ferry.CopyFrom(ctx, s, device, zeroes)
	wantError(t, err, ferry.ErrClosed)
}

// endingIO is a reader and writer whose Read and Write call a function.
type endingIO func() error

func (f endingIO) Read([]byte) (int, error)  { return 0, f() }
func (f endingIO) Write([]byte) (int, error) { return 0, f() }

// releases counts how often the context of a device is released.
type releases struct {
	cu.Driver
	n atomic.Int64
}

func (d *releases) Unwrap() cu.Driver { return d.Driver }

func (d *releases) DevicePrimaryCtxRelease(dev cu.Device) error {
	d.n.Add(1)
	return d.Driver.DevicePrimaryCtxRelease(dev)
}

// TestReaderEnds: readers and writers fail, panic or end their goroutine, more often than
// the staging ring has slots. The panic reaches the caller. The next copy works, and the GPU
// can be closed.
func TestReaderEnds(t *testing.T) {
	const n, rounds = 300_000, 40
	planted := errors.New("planted")
	for name, end := range map[string]func() error{
		"error":  func() error { return planted },
		"panic":  func() error { panic(planted) },
		"Goexit": func() error { runtime.Goexit(); return nil },
	} {
		d := &releases{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
		g := must(ferry.OpenDriver(d, 0))(t)
		s := must(ferry.NewStream(g, nil))(t)
		device := must(ferry.Alloc[byte](g, n))(t)
		host := must(ferry.AllocHost[byte](g, n, nil))(t)
		pageable := ferry.Pageable(make([]byte, n))
		canEnd, cancel := context.WithCancel(context.Background())
		defer cancel()
		for _, ctx := range []context.Context{nil, canEnd} {
			for _, m := range []ferry.Memory[byte]{device, host, pageable} {
				for what, do := range map[string]func() (int64, error){
					"CopyFrom": func() (int64, error) { return ferry.CopyFrom(ctx, s, m, endingIO(end)) },
					"CopyTo":   func() (int64, error) { return ferry.CopyTo(ctx, s, endingIO(end), m) },
				} {
					what = fmt.Sprintf("%s: %s of %T, context can end %t", name, what, m, ctx != nil)
					onWorker := ctx != nil
					for range rounds {
						returned, value, err := endOf(t, what, do)
						if returned != (name == "error" || name == "Goexit" && onWorker) || (value == any(planted)) != (name == "panic") {
							t.Fatalf("%s: returned %t, panic of %v", what, returned, value)
						}
						if returned && (err == nil || !errors.Is(err, planted) && !strings.Contains(err.Error(), "runtime.Goexit")) {
							t.Fatalf("%s: %v", what, err)
						}
					}
				}
			}
		}
		want := make([]byte, n)
		fillRandom(want)
		for _, m := range []ferry.Memory[byte]{device, host, pageable} {
			var got bytes.Buffer
			_, _, err := endOf(t, name, func() (int64, error) { return ferry.CopyFrom(context.Background(), s, m, bytes.NewReader(want)) })
			check(t, err)
			_, _, err = endOf(t, name, func() (int64, error) { return ferry.CopyTo(context.Background(), s, &got, m) })
			check(t, err)
			wantBytes(t, got.Bytes(), want)
		}
		closeAll(t, device, host, s, g)
		if n := d.n.Load(); n != 1 {
			t.Errorf("%s: the context of the closed GPU was released %d times, want once", name, n)
		}
	}
}

// endOf calls do on a new goroutine. It returns whether do returned, the value of a panic, and
// the error.
func endOf(t *testing.T, what string, do func() (int64, error)) (returned bool, value any, err error) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { value = recover() }()
		_, err = do()
		returned = true
	}()
	select {
	case <-ended:
	case <-time.After(timeout):
		t.Fatalf("%s: hangs", what)
	}
	return returned, value, err
}

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
	fillWidth(t, g, s, uint8(200))
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
