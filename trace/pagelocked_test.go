package trace_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
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

// TestWrapped: a recording names the kinds of memory that another library made, once the program has
// wrapped it.
func TestWrapped(t *testing.T) {
	for name, wrapped := range map[string]func(cu.Driver) cu.Driver{
		"software": func(d cu.Driver) cu.Driver { return d },
		"hardware": func(d cu.Driver) cu.Driver { return bare{d} },
	} {
		t.Run(name, func(t *testing.T) {
			r, path := recorder(t)
			library := soft(t, "h200", 1)
			g := open(t, r.Wrap(wrapped(library)))
			ctx := g.CUContext()
			s := must(ferry.NewStream(g, nil))(t)
			const n = 64 << 10
			host := must(library.MemHostAlloc(ctx, n, cu.MemHostAllocPortable))(t)
			onHost := must(ferry.WrapHost(g, address.Bytes(host, n), func() error { return library.MemFreeHost(ctx, host) }))(t)
			device := must(library.MemAlloc(ctx, n))(t)
			onDevice := must(ferry.WrapDevice[byte](g, device, n, func() error { return library.MemFree(ctx, device) }))(t)
			managed := must(library.MemAllocManaged(ctx, n, cu.MemAttachGlobal))(t)
			both := must(ferry.WrapManaged[byte](g, managed, n, func() error { return library.MemFree(ctx, managed) }))(t)
			check(t, ferry.Copy(s, onDevice, onHost))
			check(t, ferry.Copy(s, both, onDevice))
			check(t, s.Wait(t.Context()))
			check(t, errors.Join(onHost.Close(), onDevice.Close(), both.Close()))
			check(t, errors.Join(s.Close(), g.Close()))
			var copied []string
			for _, o := range ended(t, r, path).Operations {
				copied = append(copied, o.From+" to "+o.To)
			}
			if want := []string{"page-locked to device", "device to managed"}; !slices.Equal(copied, want) {
				t.Errorf("copies %q, want %q", copied, want)
			}
		})
	}
}

// TestStagingSites: a recording charges what the staging ring page-locks to the line of the program
// that made the ring need it: a copy, parts of a reader, or Warm.
func TestStagingSites(t *testing.T) {
	for name, wrapped := range map[string]func(cu.Driver) cu.Driver{
		"software": func(d cu.Driver) cu.Driver { return d },
		"hardware": func(d cu.Driver) cu.Driver { return bare{d} },
	} {
		t.Run(name, func(t *testing.T) {
			for what, use := range map[string]func(g *ferry.GPU, s *ferry.Stream, d *ferry.Device[byte]) error{
				"stageByCopy": stageByCopy, "stageByParts": stageByParts, "stageByWarm": stageByWarm,
			} {
				r, path := recorder(t)
				g := open(t, r.Wrap(wrapped(soft(t, "h200", 1))))
				s := must(ferry.NewStream(g, nil))(t)
				dev := must(ferry.Alloc[byte](g, 4<<20))(t)
				check(t, use(g, s, dev))
				locked := must(g.Staging().Stats())(t).Locked
				check(t, s.Close())
				check(t, dev.Close())
				check(t, g.Close())
				rec, charged := ended(t, r, path), 0
				for _, c := range rec.Calls {
					if c.Memory != "page-locked" {
						continue
					}
					charged += int(c.Bytes)
					if at := rec.Sites[c.Site]; !strings.HasSuffix(at.Func, what) {
						t.Errorf("%s: %s of %d bytes is charged to %v, %s", what, c.Name, c.Bytes, at, at.Func)
					}
				}
				if charged != locked || locked == 0 {
					t.Errorf("%s: the recording has %d bytes, and the ring %d", what, charged, locked)
				}
			}
		})
	}
}

func stageByCopy(_ *ferry.GPU, s *ferry.Stream, d *ferry.Device[byte]) error {
	return ferry.Copy(s, d, ferry.Pageable(make([]byte, d.Len())))
}

func stageByParts(_ *ferry.GPU, s *ferry.Stream, d *ferry.Device[byte]) error {
	_, err := ferry.CopyParts(context.Background(), s, []ferry.ReadPart{{Src: bytes.NewReader(make([]byte, d.Len())), Dst: d}}, nil)
	return err
}

func stageByWarm(g *ferry.GPU, _ *ferry.Stream, _ *ferry.Device[byte]) error {
	return g.Staging().Warm(context.Background())
}
