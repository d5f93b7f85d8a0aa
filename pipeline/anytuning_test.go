package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// tuningNumber is one number that Ferry itself decides by, and how a profile gets another one.
type tuningNumber struct {
	path string
	at   func(p *profile.Profile) *profile.Number
}

// tuningNumbers finds the numbers of Tuning and Staging by reflection.
func tuningNumbers() (all []tuningNumber) {
	var walk func(v reflect.Type, path string, index []int)
	walk = func(v reflect.Type, path string, index []int) {
		if v == reflect.TypeFor[profile.Number]() {
			all = append(all, tuningNumber{path, func(p *profile.Profile) *profile.Number {
				return reflect.ValueOf(p).Elem().FieldByIndex(index).Addr().Interface().(*profile.Number)
			}})
			return
		}
		for i := 0; v.Kind() == reflect.Struct && i < v.NumField(); i++ {
			walk(v.Field(i).Type, path+"."+v.Field(i).Name, append(slices.Clone(index), i))
		}
	}
	for _, name := range []string{"Tuning", "Staging"} {
		f, _ := reflect.TypeFor[profile.Profile]().FieldByName(name)
		walk(f.Type, name, f.Index)
	}
	return all
}

// TestAnyTuning gives each number that Ferry decides by the values at the ends of its range, and
// others. A program with pageable copies, a pool, and pipelines ends with the right data, or a
// call returns an error.
func TestAnyTuning(t *testing.T) {
	base := gputest.H200(t)
	type change struct {
		n    tuningNumber
		kind string
		v    float64
	}
	var changes []change
	for _, n := range tuningNumbers() {
		most := -1.0
		for _, v := range []float64{0, 1, 2, 3, 512, 4096, 1e-6, 0.5, 1e6, 1e9, 1e10, 1024, 1 << 30, 1 << 53} {
			p := *base
			*n.at(&p) = profile.Number{Value: v, Source: "h200"}
			if p.Check() != nil {
				continue
			}
			most = max(most, v)
			changes = append(changes, change{n, fmt.Sprint(v), v})
		}
		changes = append(changes, change{n, "greatest", most})
	}
	if len(changes) < 250 {
		t.Fatalf("%d changes, want those of some 70 numbers", len(changes))
	}
	drawn := sample.OfEach(t, changes, func(c change) string { return c.kind }, 24)
	if sample.Race() {
		drawn = sample.Of(t, changes, 4)
	}
	for _, c := range drawn {
		p := *base
		*c.n.at(&p) = profile.Number{Value: c.v, Source: "h200"}
		t.Run(fmt.Sprintf("%s=%v", c.n.path, c.v), func(t *testing.T) { tunedProgram(t, &p) })
	}
}

// tunedProgram moves data in each way that the tuning decides about, on a machine with a profile.
func tunedProgram(t *testing.T, p *profile.Profile) {
	d, err := softgpu.Open(softgpu.Options{Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	g, err := ferry.OpenDriver(d, 0)
	if err != nil {
		t.Logf("open: %v", err)
		return
	}
	defer g.Close()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(i*7 + i>>9)
	}
	for _, f := range []func(context.Context, *ferry.GPU, []byte) ([]byte, error){throughBuffer, throughPool, throughPipeline} {
		got, err := f(ctx, g, slices.Clone(data))
		switch {
		case ctx.Err() != nil:
			t.Fatalf("it did not end within %v: %v", timeout, err)
		case err != nil:
			t.Logf("refused: %v", err)
		case !bytes.Equal(got, data):
			t.Error("the data are wrong")
		}
	}
}

// throughBuffer copies pageable memory to the device and back.
func throughBuffer(ctx context.Context, g *ferry.GPU, data []byte) ([]byte, error) {
	b, err := ferry.Alloc[byte](g, len(data))
	if err != nil {
		return nil, err
	}
	defer b.Close()
	s, err := ferry.NewStream(g, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	got := make([]byte, len(data))
	if err := ferry.Copy(s, b, ferry.Pageable(data)); err != nil {
		return nil, err
	}
	if err := ferry.Copy(s, ferry.Pageable(got), b); err != nil {
		return nil, err
	}
	return got, s.Wait(ctx)
}

// throughPool copies memory of a page-locked pool to the device and back.
func throughPool(ctx context.Context, g *ferry.GPU, data []byte) ([]byte, error) {
	pool, err := ferry.NewPinnedPool(g, nil)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var h ferry.Host[byte]
	if err := h.AllocContext(ctx, pool, len(data)); err != nil {
		return nil, err
	}
	defer h.Close()
	copy(h.Slice(), data)
	return throughBuffer(ctx, g, slices.Clone(h.Slice()))
}

// throughPipeline moves a file through a pipeline to another file.
func throughPipeline(ctx context.Context, g *ferry.GPU, data []byte) ([]byte, error) {
	var out bytes.Buffer
	p := pipeline.Pipeline{
		GPU: g, In: []pipeline.End{pipeline.From[byte](bytes.NewReader(data))}, Out: []pipeline.End{pipeline.To[byte](&out)}, InPlace: true,
		Step: func(*ferry.Stream, *pipeline.Chunk) error { return nil },
	}
	defer p.Close()
	_, err := p.Run(ctx)
	return out.Bytes(), err
}
