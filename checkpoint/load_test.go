package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint"
	"github.com/ferrygpu/ferry/internal/test/softtest"
	"github.com/ferrygpu/ferry/softgpu"
)

// stream opens a software GPU and a stream on it.
func stream(t testing.TB, schedule softgpu.Schedule) *ferry.Stream {
	t.Helper()
	s, err := ferry.NewStream(softtest.Open(t, schedule), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// loaded demands that tensors in memory have these bytes.
func loaded(t *testing.T, l *checkpoint.Loaded, want []tensor) {
	t.Helper()
	if n := len(l.Tensors()); n != len(want) {
		t.Errorf("%d tensors, want %d", n, len(want))
	}
	for _, w := range want {
		view, err := checkpoint.Tensor[byte](l, w.name)
		if err != nil {
			t.Error(err)
			continue
		}
		got, err := ferry.Download[byte](view)
		if err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
		if !bytes.Equal(got, w.data) {
			t.Errorf("%s: %d bytes differ from the %d of the file", w.name, len(got), len(w.data))
		}
	}
}

// load loads a checkpoint, and closes it at the end of the test.
func load(t testing.TB, s *ferry.Stream, c *checkpoint.Checkpoint, o *checkpoint.Options) *checkpoint.Loaded {
	t.Helper()
	l, err := checkpoint.Load(context.Background(), s, c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// schedules are those that tests of loads run under.
var schedules = []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random}

// TestLoad loads tensors of many sizes, and compares all bytes.
func TestLoad(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	want := []tensor{
		random(r, "embed", checkpoint.BF16, 300, 1000), random(r, "norm", checkpoint.F32, 77), random(r, "one", checkpoint.I64),
		random(r, "none", checkpoint.U8, 0, 5), random(r, "odd", checkpoint.U8, 3), random(r, "last", checkpoint.F8E4M3, 1<<20),
	}
	path := write(t, "model.safetensors", safetensorsOf(nil, want...))
	for _, schedule := range schedules {
		t.Run(schedule.String(), func(t *testing.T) {
			c := open(t, path)
			same(t, c, want)
			loaded(t, load(t, stream(t, schedule), c, nil), want)
		})
	}
}

// broken is a reader that cannot read a byte.
type broken struct {
	io.ReaderAt
	at  int64
	err error // nil before the byte breaks
}

func (r *broken) ReadAt(p []byte, off int64) (int, error) {
	if r.err == nil || r.at < off || r.at >= off+int64(len(p)) {
		return r.ReaderAt.ReadAt(p, off)
	}
	n, _ := r.ReaderAt.ReadAt(p[:r.at-off], off)
	return n, r.err
}

// TestNeighbours loads tensors that are read together, because they are neighbours in the file and in
// memory, and others. An error has the tensor and the byte that cannot be read.
func TestNeighbours(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	want := []tensor{
		random(r, "a", checkpoint.BF16, 512), random(r, "b", checkpoint.BF16, 128), random(r, "none", checkpoint.U8, 0), random(r, "c", checkpoint.BF16, 256),
		random(r, "odd", checkpoint.BF16, 3), random(r, "even", checkpoint.BF16, 128), random(r, "i", checkpoint.U8, 256), random(r, "j", checkpoint.BF16, 5<<20),
		random(r, "given", checkpoint.BF16, 384), random(r, "z", checkpoint.BF16, 384),
	}
	file := safetensorsOf(nil, want...)
	s, reader := stream(t, softgpu.Random), &broken{ReaderAt: bytes.NewReader(file)}
	c, err := checkpoint.OpenReaderAt("m", reader, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	given, err := ferry.Alloc[byte](s.GPU(), 768)
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	options := checkpoint.Options{Into: map[string]ferry.Memory[byte]{"given": given}}
	loaded(t, load(t, s, c, &options), want)
	loaded(t, load(t, s, c, &checkpoint.Options{Tensors: []string{"a", "c"}}), []tensor{want[0], want[3]})
	reader.err = errors.New("a bad byte")
	for _, options.To = range []checkpoint.DType{checkpoint.NoDType, checkpoint.F16} {
		for _, x := range c.Tensors() {
			for _, at := range []int64{0, x.Bytes / 2, x.Bytes - 1} {
				if reader.at = x.Offset + at; x.Bytes == 0 {
					continue
				}
				l, err := checkpoint.Load(t.Context(), s, c, &options)
				if text := fmt.Sprintf("tensor %q, byte %d of %d: ", x.Name, at, x.Bytes); l != nil || !errors.Is(err, reader.err) || !strings.Contains(err.Error(), text) {
					t.Errorf("%v, %v, want %s", l, err, text)
				}
			}
		}
	}
}

// TestManyTensors demands that Load of many tensors that are neighbours allocates for few of them.
func TestManyTensors(t *testing.T) {
	const n = 3000
	file := many(n, 256)
	c, err := checkpoint.OpenReaderAt("m", bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	s := stream(t, softgpu.Eager)
	if got := testing.AllocsPerRun(3, func() {
		l, err := checkpoint.Load(t.Context(), s, c, nil)
		if err != nil || l.Close() != nil {
			t.Fatal(err)
		}
	}); got > n/3 {
		t.Errorf("%v allocations for %d tensors", got, n)
	}
}
