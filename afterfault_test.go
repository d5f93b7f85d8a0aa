package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestAfterFault: the first error after a fault says where the kernel failed, that the context
// is lost, and how to go on. Every later call returns the code in one line that names the
// kernel, says once how to go on, and does not repeat the first error.
func TestAfterFault(t *testing.T) {
	ctx := context.Background()
	soft, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := ferry.OpenDriver(soft, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ferry.Load(g, []byte(kernels.PTX), nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Kernel("increment")
	if err != nil {
		t.Fatal(err)
	}
	s, err := ferry.NewStream(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	on, err := ferry.Alloc[float32](g, 100)
	if err != nil {
		t.Fatal(err)
	}
	host, err := ferry.AllocHost[float32](g, 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ferry.NewEvent(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Launch(k, ferry.Grid(64, 32), on, uint64(1<<20)); err != nil {
		t.Fatal(err)
	}

	const place, goOn = "kernel increment", "the process must restart"
	err = s.Wait(ctx)
	wantError(t, err, cu.ErrorIllegalAddress, place, "past the end of a 400-byte device allocation", "the context is lost: "+goOn)
	first, ok := errors.AsType[*cu.Fault](err)
	if !ok {
		t.Fatalf("the first error is %T", err)
	}
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"Wait", func() error { return s.Wait(ctx) }},
		{"Done", func() error { _, err := s.Done(); return err }},
		{"Copy", func() error { return ferry.Copy(s, host, on) }},
		{"Fill", func() error { return ferry.Fill(s, on, 1) }},
		{"Launch", func() error { return s.Launch(k, ferry.Grid(64, 32), on, uint64(100)) }},
		{"Record", func() error { return s.Record(e) }},
		{"HostFunc", func() error { return s.HostFunc(func() {}) }},
		{"GPU.Wait", func() error { return g.Wait(ctx) }},
		{"MemInfo", func() error { _, _, err := g.MemInfo(); return err }},
		{"Alloc", func() error { _, err := ferry.Alloc[byte](g, 10); return err }},
		{"AllocHost", func() error { _, err := ferry.AllocHost[byte](g, 10, nil); return err }},
		{"NewStream", func() error { _, err := ferry.NewStream(g, nil); return err }},
		{"NewEvent", func() error { _, err := ferry.NewEvent(g, nil); return err }},
		{"Load", func() error { _, err := ferry.Load(g, []byte(kernels.PTX), nil); return err }},
		{"CopyFrom", func() error {
			_, err := ferry.CopyFrom(ctx, s, on, bytes.NewReader(make([]byte, 400)))
			return err
		}},
		{"Pipeline.Run", func() error {
			p := &pipeline.Pipeline{GPU: g, In: []pipeline.End{host}, Out: []pipeline.End{host}, InPlace: true,
				Step: func(*ferry.Stream, *pipeline.Chunk) error { return nil }}
			_, err := p.Run(ctx)
			return errors.Join(err, p.Close())
		}},
		{"OpenDriver", func() error { _, err := ferry.OpenDriver(soft, 0); return err }},
		{"Device.Close", on.Close}, {"Host.Close", host.Close}, {"Event.Close", e.Close}, {"Stream.Close", s.Close}, {"Module.Close", m.Close},
	} {
		err := c.call()
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		lost, ok := errors.AsType[*cu.Lost](err)
		if !ok || lost.First != error(first) || !errors.Is(err, cu.ErrorIllegalAddress) {
			t.Errorf("%s: %v: it does not wrap the first fault and the code", c.name, err)
		}
		if text := err.Error(); strings.Count(text, place) != 1 || strings.Count(text, goOn) != 1 || strings.Contains(text, first.Near) || strings.Contains(text, "\n") {
			t.Errorf("%s: %s", c.name, text)
		}
		if text := fmt.Sprintf("%+v", lost); !strings.Contains(text, first.Error()) {
			t.Errorf("%s: %%+v is %s", c.name, text)
		}
	}
	if err := g.Close(); err != nil {
		wantError(t, err, cu.ErrorIllegalAddress, goOn)
	}
	again, err := softgpu.Open(softgpu.Options{}) // what the error says
	if err != nil {
		t.Fatal(err)
	}
	g, err = ferry.OpenDriver(again, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}
