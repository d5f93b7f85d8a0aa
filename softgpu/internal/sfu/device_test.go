package sfu_test

import (
	"fmt"
	"testing"

	"github.com/ferrygpu/ferry"
)

// A device runs forms on a GPU.
type device struct {
	list   []form
	stream *ferry.Stream
	module *ferry.Module
	out    *ferry.Device[uint32]
	host   *ferry.Host[uint32]
}

// batch is the most results of one launch.
const batch = 1 << 26

func newDevice(t *testing.T, g *ferry.GPU, list []form, most int) *device {
	t.Helper()
	d := &device{list: list, stream: g.DefaultStream()}
	var err error
	if d.module, err = ferry.Load(g, module(list), nil); err != nil {
		t.Fatal(err)
	}
	if d.out, err = ferry.Alloc[uint32](g, most); err != nil {
		t.Fatal(err)
	}
	if d.host, err = ferry.AllocHost[uint32](g, most, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.host.Close(); d.out.Close(); d.module.Close() })
	return d
}

// run returns n results of a form, from the operands of the number first on. They are
// valid until the next call.
func (d *device) run(form int, first uint64, n int) ([]uint32, error) {
	k, err := d.module.Kernel(fmt.Sprint("k", form))
	if err != nil {
		return nil, err
	}
	threads := min(n, 256)
	if err := d.stream.Launch(k, ferry.Cover(n, threads), d.out, first); err != nil {
		return nil, fmt.Errorf("%s: %w", d.list[form].name, err)
	}
	if err := ferry.Copy(d.stream, d.host.Range(0, n), d.out.Range(0, n)); err != nil {
		return nil, err
	}
	return d.host.Slice()[:n], nil
}

// TestForms runs every form on the software GPU, for some operands of each exponent, and
// compares with the functions in Go.
func TestForms(t *testing.T) {
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	const n = 256
	list := forms()
	d := newDevice(t, g, list, n)
	for i, f := range list {
		for first := uint64(0); first < f.inputs; first += f.inputs / 64 {
			got, err := d.run(i, first, n)
			if err != nil {
				t.Fatal(err)
			}
			for j, r := range got {
				if v := first + uint64(j); r != f.result(v) {
					t.Fatalf("%s of number %#x: got %#x, want %#x", f.name, v, r, f.result(v))
				}
			}
		}
	}
}
