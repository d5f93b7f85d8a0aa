package ferry_test

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
	"github.com/ferrygpu/ferry/softgpu"
)

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

// fullWriter is a writer that has room for so many bytes.
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
