package checkpoint_test

import (
	"bytes"
	"context"
	"math/rand/v2"
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
