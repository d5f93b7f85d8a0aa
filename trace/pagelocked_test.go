package trace_test

import (
	"slices"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// TestPageLocked: a recording calls memory of AllocHost page-locked, whichever driver call locked
// it, and memory of Register registered. So do its operations, on a software GPU and on a driver
// that does not report its operations.
func TestPageLocked(t *testing.T) {
	for name, wrapped := range map[string]func(cu.Driver) cu.Driver{
		"software": func(d cu.Driver) cu.Driver { return d },
		"hardware": func(d cu.Driver) cu.Driver { return bare{d} },
	} {
		t.Run(name, func(t *testing.T) {
			r, path := recorder(t)
			g := open(t, r.Wrap(wrapped(soft(t, "h200", 1))))
			s := must(ferry.NewStream(g, nil))(t)
			dev := must(ferry.Alloc[byte](g, 4<<20))(t)
			for _, h := range []*ferry.Host[byte]{
				must(ferry.AllocHost[byte](g, 4<<10, nil))(t),
				must(ferry.AllocHost[byte](g, 4<<20, nil))(t),
				must(ferry.Register(g, make([]byte, 4<<20), nil))(t),
			} {
				check(t, ferry.Copy(s, dev.Range(0, h.Len()), h))
				check(t, s.Wait(t.Context()))
				check(t, h.Close())
			}
			check(t, s.Close())
			check(t, dev.Close())
			check(t, g.Close())
			rec := ended(t, r, path)
			var made, copied []string
			for _, c := range rec.Calls {
				if c.Name == "cuMemHostAlloc" || c.Name == "cuMemHostRegister" {
					made = append(made, c.Name+" "+c.Memory)
				}
			}
			for _, o := range rec.Operations {
				copied = append(copied, o.From)
			}
			if want := []string{"cuMemHostAlloc page-locked", "cuMemHostRegister page-locked", "cuMemHostRegister registered"}; !slices.Equal(made, want) {
				t.Errorf("calls %q, want %q", made, want)
			}
			if want := []string{"page-locked", "page-locked", "registered"}; !slices.Equal(copied, want) {
				t.Errorf("copies from %q, want %q", copied, want)
			}
		})
	}
}
