package ferry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// stagedSizes are on both sides of what decides about the way of plain memory.
var stagedSizes = []int{1, 4096, 16 << 10, 16<<10 + 1, 300_001, 2 << 20, 2<<20 + 1, 4<<20 + 1, 9<<20 + 7}

// TestStagedCopies: plain memory arrives on the device and comes back, whatever
// the size and the order in which the device works.
func TestStagedCopies(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		g := openSoft(t, "h200", schedule)
		stagedCopies(t, g)
	}
	stagedCopies(t, openTest(t))
}

func stagedCopies(t *testing.T, g *ferry.GPU) {
	t.Helper()
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	device := must(ferry.Alloc[byte](g, stagedSizes[len(stagedSizes)-1]))(t)
	for _, n := range stagedSizes {
		want, got := make([]byte, n), make([]byte, n)
		random(want)
		src := bytes.Clone(want)
		check(t, ferry.Fill(s, device, byte(0xee)))
		check(t, ferry.Copy(s, device.Range(0, n), ferry.Pageable(src)))
		clear(src) // it has been read
		check(t, ferry.Copy(s, ferry.Pageable(got), device.Range(0, n)))
		if !bytes.Equal(got, want) {
			t.Errorf("%v: %d bytes differ", g, n)
		}
	}
	closeAll(t, device, s)
}

// TestStagedBesideStandingStream: a stream that stands still with staged copies in
// it does not stop those of others, though it has all of the ring.
func TestStagedBesideStandingStream(t *testing.T) {
	g := openTest(t)
	still, s := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	const n = 5 << 20
	device, other := must(ferry.Alloc[byte](g, n))(t), must(ferry.Alloc[byte](g, n))(t)
	want, got := make([]byte, n), make([]byte, n)
	random(want)
	open := gate(t, still)
	done := make(chan error, 1)
	go func() { done <- ferry.Copy(still, device, ferry.Pageable(want)) }()
	time.Sleep(20 * time.Millisecond) // by then it has all slots, and waits
	check(t, ferry.Copy(s, other, ferry.Pageable(want)))
	check(t, ferry.Copy(s, ferry.Pageable(got), other))
	if !bytes.Equal(got, want) {
		t.Error("the bytes of the other stream differ")
	}
	open()
	check(t, <-done)
	check(t, ferry.Copy(still, ferry.Pageable(got), device))
	if !bytes.Equal(got, want) {
		t.Error("the bytes of the stream that stood still differ")
	}
	closeAll(t, device, other, still, s)
}

// TestStagedInStandingStream: copies one after the other in a stream that stands still do
// not take each other's slots, though the stream had come to its end before.
func TestStagedInStandingStream(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	const n, copies = 3 << 20, 2 // few enough that all get slots
	device := must(ferry.Alloc[byte](g, copies*n))(t)
	want, got := make([]byte, copies*n), make([]byte, copies*n)
	check(t, ferry.Copy(s, device, ferry.Pageable(want)))
	check(t, s.Wait(t.Context()))
	random(want)
	open := gate(t, s)
	for i := 0; i < len(want); i += n {
		check(t, ferry.Copy(s, device.Range(i, i+n), ferry.Pageable(want[i:i+n])))
	}
	open()
	check(t, ferry.Copy(s, ferry.Pageable(got), device))
	if !bytes.Equal(got, want) {
		t.Error("the bytes differ")
	}
	closeAll(t, device, s)
}

// TestStagedTime: on the software GPU a staged copy takes about what the ring lets
// through, twice the same, when there are slots enough.
func TestStagedTime(t *testing.T) {
	const n = 64 << 20
	memory := make([]byte, n)
	run := func() (first, in, out time.Duration) {
		g := openTimed(t, "h200")
		s := must(ferry.NewStream(g, nil))(t)
		device := must(ferry.Alloc[byte](g, n))(t)
		took := func(dst, src ferry.Memory[byte]) time.Duration {
			begin := g.Now()
			check(t, ferry.Copy(s, dst, src))
			check(t, s.Wait(context.Background()))
			return g.Now() - begin
		}
		first = took(device, ferry.Pageable(memory))
		for range 2 {
			in = took(device, ferry.Pageable(memory))
			out = took(ferry.Pageable(memory), device)
		}
		closeAll(t, device, s)
		return first, in, out
	}
	first, in, out := run()
	const link = 1212 * time.Microsecond // page-locked
	for name, took := range map[string]time.Duration{"in": in, "out": out} {
		if took < link || took > link*115/100 {
			t.Errorf("%s: %v, page-locked memory %v", name, took, link)
		}
	}
	if first <= in {
		t.Errorf("the first copy takes %v, the next %v: slots cost nothing", first, in)
	}
	if f, i, o := run(); f != first || i != in || o != out {
		t.Errorf("times %v %v %v, then %v %v %v", first, in, out, f, i, o)
	}
}

// TestCopyFrom fills every kind of memory from readers and files, and CopyTo
// writes it again.
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
			random(want)
			done, err := ferry.CopyFrom(ctx, s, m.Memory, io.LimitReader(bytes.NewReader(want), int64(n)+1))
			if check(t, err); done != int64(n) {
				t.Errorf("%s: %d bytes read", what, done)
			}
			var got bytes.Buffer
			done, err = ferry.CopyTo(ctx, s, &got, m.Memory)
			if check(t, err); done != int64(n) || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s: %d bytes written, %d arrived, or they differ", what, done, got.Len())
			}
			check(t, m.close())
		}
	}
	closeAll(t, s)
}

// TestCopyFromFile reads where the file stands, leaves it after what was read, and
// says where it ends too early.
func TestCopyFromFile(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	want := make([]byte, 1<<20)
	random(want)
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
		t.Errorf("the file stands at %d", at)
	}
	check(t, f.Close())
	closeAll(t, device, s)
}

// hangingReader reads when it is told to.
type hangingReader chan struct{}

func (r hangingReader) Read(p []byte) (int, error) { <-r; return len(p), nil }

// fullWriter takes so many bytes.
type fullWriter int

func (w *fullWriter) Write(p []byte) (int, error) {
	n := min(len(p), int(*w))
	*w -= fullWriter(n)
	if n < len(p) {
		return n, io.ErrNoProgress
	}
	return n, nil
}

// TestCopyFromRefused and what goes wrong.
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
			t.Errorf("%d bytes written", n)
		}
	}

	hangs := make(hangingReader)
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	n, err := ferry.CopyFrom(short, s, device, hangs)
	wantError(t, err, context.DeadlineExceeded, "byte 0")
	if n != 0 {
		t.Errorf("%d bytes read", n)
	}
	check(t, ferry.Copy(s, device, ferry.Pageable(make([]byte, 300_000)))) // others are unharmed
	close(hangs)
	closeAll(t, device, host, s)
	_, err = ferry.CopyFrom(ctx, s, device, zeroes)
	wantError(t, err, ferry.ErrClosed)
}

// TestStagedError: a copy that fails in the middle says at which byte.
func TestStagedError(t *testing.T) {
	d := &failingCopies{Driver: softDriver(t, "h200", 1, softgpu.Eager), left: 2}
	g := must(ferry.OpenDriver(d, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	device := must(ferry.Alloc[byte](g, 8<<20))(t)
	err := ferry.Copy(s, device, ferry.Pageable(make([]byte, 8<<20)))
	wantError(t, err, cu.ErrorNotMapped, "copy 8.0 MiB", "byte 2097152")
	if err != nil && !strings.Contains(err.Error(), "pageable slice") {
		t.Error(err)
	}
	closeAll(t, device, s, g)
}

// failingCopies lets some copies to the device succeed.
type failingCopies struct {
	cu.Driver
	left int
}

func (d *failingCopies) Unwrap() cu.Driver { return d.Driver }

func (d *failingCopies) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	if d.left--; d.left < 0 {
		return cu.ErrorNotMapped
	}
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}
