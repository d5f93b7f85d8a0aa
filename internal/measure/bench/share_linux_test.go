package bench

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// peerOf replaces the peer by a function.
func peerOf(t *testing.T, f func(name string, args []uintptr) uintptr) {
	t.Helper()
	old := openLibrary
	t.Cleanup(func() { openLibrary = old })
	openLibrary = func(string) (library, error) {
		return func(name string, args ...uintptr) (uintptr, error) { return f(name, args), nil }, nil
	}
}

// TestShare: rounds leave nothing behind, and change the pages at both ends alone. The peer gets what
// it needs, its error is the result, and a peer that changes nothing is found.
func TestShare(t *testing.T) {
	g, err := ferry.Open("soft:h200")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if v, err := g.Attribute(cu.DeviceAttributeVirtualMemoryManagementSupported); err != nil || v == 0 {
		t.Skip("no virtual memory", err)
	}
	c, err := Share(g, "", 20)
	if err != nil || !c.Flat() || c.NS <= 0 || c.Ratio() != 0 || c.Rounds != 20 {
		t.Errorf("%+v, %v", c, err)
	}
	calls := 0
	peerOf(t, func(name string, args []uintptr) uintptr {
		calls++
		d, ctx := g.Driver(), cu.Context(args[0])
		first := cu.DevicePtr(args[4])
		for _, p := range []cu.DevicePtr{first, first + cu.DevicePtr(args[5]-4*args[6])} {
			if name != "share_once" || d.StreamQuery(ctx, cu.Stream(args[1])) != nil || inc(d, ctx, cu.Function(args[2]), p, args[6]) != nil {
				return ^uintptr(0)
			}
		}
		return 1000
	})
	if c, err := Share(g, "peer", 10); err != nil || c.InC != 1000 || c.Ratio() != c.NS/1000 || calls != 10+shareWarm {
		t.Errorf("%+v, %v, %d calls of the peer", c, err, calls)
	}
	peerOf(t, func(string, []uintptr) uintptr { return 1 })
	if _, err := Share(g, "peer", 1); err == nil {
		t.Error("a peer that changes nothing is not found")
	}
	peerOf(t, func(string, []uintptr) uintptr { return ^uintptr(cu.ErrorOutOfMemory - 1) })
	if _, err := Share(g, "peer", 1); err == nil {
		t.Error("an error of the peer is lost")
	}
}

// inc launches the kernel increment on n elements, and waits.
func inc(d cu.Driver, ctx cu.Context, f cu.Function, p cu.DevicePtr, n uintptr) error {
	params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(p)), uint64(n))
	err := d.LaunchKernel(ctx, f, cu.Dim3{X: uint32(n+255) / 256, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, 0, params)
	return errors.Join(err, d.CtxSynchronize(ctx))
}
