package api

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	hazards "github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestUntrackedKernel: package check reports Slice and Close of a buffer whose address a kernel got
// by cu.Driver, as it does for a copy. If External says what the kernel uses, it reports nothing.
func TestUntrackedKernel(t *testing.T) {
	type use struct {
		kind string
		host bool
		do   func(buffer io.Closer, slice func()) error
	}
	for what, c := range map[string]use{
		"Slice":           {hazards.HostInFlight, true, func(_ io.Closer, slice func()) error { slice(); return nil }},
		"Close of host":   {hazards.FreeInFlight, true, func(b io.Closer, _ func()) error { return b.Close() }},
		"Close of device": {hazards.FreeInFlight, false, func(b io.Closer, _ func()) error { return b.Close() }},
	} {
		for _, op := range []string{"a kernel", "a copy"} {
			for _, said := range []bool{false, true} {
				what := what + " beside " + op
				d := hazards.Wrap(softDriver(t, "h200", 1, softgpu.Eager), hazards.Options{})
				g := openDriver(t, d)
				s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
				m, k := load(t, g, "increment")
				host := must(ferry.AllocHost[uint32](g, 100, &ferry.HostOptions{Mapped: true}))(t)
				on, from := must(ferry.Alloc[uint32](g, 100))(t), must(ferry.Alloc[uint32](g, 100))(t)
				check(t, errors.Join(ferry.Fill(s, on, 1), ferry.Fill(s, from, 1), ferry.Fill(s, host, 1), s.Wait(context.Background())))
				buffer, p, uses := io.Closer(on), on.Pointer(), ferry.Writes(on)
				if c.host {
					buffer, p, uses = host, host.Pointer(), ferry.Writes(host)
				}
				var open func()
				work := func(h cu.Stream) error {
					open = foreignGate(t, g, h)
					if op == "a copy" {
						return d.MemcpyDtoDAsync(g.CUContext(), p, from.Pointer(), 400, h)
					}
					params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(p)), 100)
					return d.LaunchKernel(g.CUContext(), k.Handle(), cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 32, Y: 1, Z: 1}, 0, h, params)
				}
				if said {
					check(t, s.External(work, uses))
				} else {
					check(t, work(s.Handle()))
				}
				done := make(chan error, 1)
				go func() { done <- c.do(buffer, func() { host.Slice() }) }()
				if !said && c.kind == hazards.HostInFlight {
					check(t, <-done)
					open()
				} else {
					open()
					check(t, <-done)
				}
				check(t, s.Wait(context.Background()))
				var found []string
				for _, f := range d.Findings() {
					if !f.Note {
						found = append(found, f.Kind)
					}
				}
				want := ""
				if !said {
					want = c.kind
				}
				if strings.Join(found, ", ") != want {
					t.Errorf("%s, said by External %t: the findings are %q, want %q", what, said, found, want)
				}
				closeAll(t, host, on, from, m, s)
			}
		}
	}
}
