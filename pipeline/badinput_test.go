package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestBadInput: nil and closed things in every field, and numbers that overflow, are errors. None
// of them panics, and no data changes.
func TestBadInput(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	p := newFixture(t, g)
	in, out := must(ferry.Register(g, iota32(100, 1), nil))(t), must(ferry.Register(g, iota32(100, 2), nil))(t)
	device, host := must(ferry.Alloc[float32](g, 100))(t), must(ferry.AllocHost[float32](g, 100, nil))(t)
	managed := must(ferry.AllocManaged[float32](g, 100, nil))(t)
	pool := must(ferry.NewPinnedPool(g, nil))(t)
	closeAll(t, device, host, managed, pool)
	file := must(os.Create(t.TempDir() + "/closed"))(t)
	check(t, file.Close())
	defer closeAll(t, in, out)
	slice := ferry.Pageable(iota32(100, 3))
	var noFile *os.File
	ends := func(e ...pipeline.End) []pipeline.End { return e }
	for _, c := range []struct {
		x    *pipeline.Pipeline
		is   error
		part string
	}{
		{&pipeline.Pipeline{GPU: new(ferry.GPU), In: ends(in)}, cu.ErrorInvalidValue, "no GPU given"},
		{&pipeline.Pipeline{In: ends((*ferry.Device[float32])(nil))}, cu.ErrorInvalidValue, "input 0: no buffer given"},
		{&pipeline.Pipeline{In: ends((*ferry.Managed[float32])(nil))}, cu.ErrorInvalidValue, "input 0: no buffer given"},
		{&pipeline.Pipeline{In: ends((*ferry.PageableSlice[float32])(nil))}, cu.ErrorInvalidValue, "input 0: no buffer given"},
		{&pipeline.Pipeline{In: ends(in), Out: ends(out, nil)}, cu.ErrorInvalidValue, "output 1 is nil"},
		{&pipeline.Pipeline{In: ends(in), Out: ends((*ferry.Host[float32])(nil))}, cu.ErrorInvalidValue, "output 0: no buffer given"},
		{&pipeline.Pipeline{In: ends(in), Out: ends(pipeline.To[float32](nil))}, cu.ErrorInvalidValue, "no reader or writer given"},
		{&pipeline.Pipeline{In: ends(pipeline.From[float32](noFile)), Len: 100}, os.ErrInvalid, ""},
		{&pipeline.Pipeline{In: ends(in), Out: ends(pipeline.To[float32](noFile))}, os.ErrInvalid, ""},
		{&pipeline.Pipeline{In: ends(pipeline.From[float32](file)), Len: 100}, os.ErrClosed, ""},
		{&pipeline.Pipeline{In: ends(in), Out: ends(pipeline.To[float32](file))}, os.ErrClosed, ""},
		{&pipeline.Pipeline{In: ends(device)}, ferry.ErrClosed, "input 0: device buffer"},
		{&pipeline.Pipeline{In: ends(host)}, ferry.ErrClosed, "input 0: page-locked buffer"},
		{&pipeline.Pipeline{In: ends(managed)}, ferry.ErrClosed, "input 0: managed buffer"},
		{&pipeline.Pipeline{In: ends(in), Out: ends(device)}, ferry.ErrClosed, "output 0: device buffer"},
		{&pipeline.Pipeline{In: ends(in), Out: ends(host)}, ferry.ErrClosed, "output 0: page-locked buffer"},
		{&pipeline.Pipeline{In: ends(slice), Pool: new(ferry.PinnedPool)}, cu.ErrorInvalidValue, "no pool"},
		{&pipeline.Pipeline{In: ends(slice), Pool: pool}, ferry.ErrClosed, "pool"},
		{&pipeline.Pipeline{In: ends(in), Len: math.MinInt}, cu.ErrorInvalidValue, "negative"},
		{&pipeline.Pipeline{In: ends(in), ChunkLen: math.MinInt}, cu.ErrorInvalidValue, "negative"},
		{&pipeline.Pipeline{In: ends(in), Depth: math.MinInt}, cu.ErrorInvalidValue, "negative"},
		{&pipeline.Pipeline{In: ends(in), Out: ends(out), Len: 101}, cu.ErrorInvalidValue, "needs 101"},
		{&pipeline.Pipeline{In: ends(in), Out: ends(out), Len: math.MaxInt}, cu.ErrorInvalidValue, "more than can be counted"},
		{&pipeline.Pipeline{In: ends(pipeline.From[float32](zeros{})), ChunkLen: math.MaxInt}, cu.ErrorOutOfMemory, "ChunkLen 9223372036854775807"},
		{&pipeline.Pipeline{In: ends(pipeline.From[float32](zeros{})), ChunkLen: math.MaxInt/4 + 2}, cu.ErrorOutOfMemory, "ChunkLen"},
		{&pipeline.Pipeline{In: ends(pipeline.From[float32](zeros{})), ChunkLen: 1<<62 + 1}, cu.ErrorOutOfMemory, "ChunkLen"}, // 4 bytes modulo 1<<64
		{&pipeline.Pipeline{In: ends(pipeline.From[byte](zeros{})), ChunkLen: math.MaxInt}, cu.ErrorOutOfMemory, ""},
		{&pipeline.Pipeline{In: ends(pipeline.From[byte](zeros{})), ChunkLen: 1 << 42, Depth: 1}, cu.ErrorOutOfMemory, ""},
		{&pipeline.Pipeline{Out: ends(pipeline.To[float32](io.Discard)), Len: math.MaxInt}, cu.ErrorInvalidValue, "more than can be counted"},
	} {
		c.x.Step = p.increment
		if c.x.GPU == nil {
			c.x.GPU = g
		}
		n, err := c.x.Run(context.Background())
		if n != 0 || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%+v: %d elements, error %v; want %v with %q in it", c.x, n, err, c.is, c.part)
		}
		closeAll(t, c.x)
		closeAll(t, c.x)
	}
	closeAll(t, new(pipeline.Pipeline))
	for from, memory := range map[float32][]float32{1: in.Slice(), 2: out.Slice(), 3: slice.Slice()} {
		if want := iota32(100, int(from)); !bytes.Equal(asBytes(memory), asBytes(want)) {
			t.Errorf("memory that began with %v has changed", from)
		}
	}
	p.run(&pipeline.Pipeline{In: ends(in), Out: ends(out), Step: p.increment, InPlace: true, Depth: 3, ChunkLen: 1 << 20}, 100)
	wantIncremented(t, out.Slice(), iota32(100, 1))
}
