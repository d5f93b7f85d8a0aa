package ferry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
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
