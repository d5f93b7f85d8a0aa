package api

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// movingDriver is a software GPU that seems to be hardware, because it has no Unwrap. So a transfer has
// several goroutines. It makes copies at once, in memory of its own, and allocates nothing for them.
type movingDriver struct {
	cu.Driver
	base   cu.DevicePtr
	memory []byte // at base
}

func (d *movingDriver) MemAlloc(ctx cu.Context, n uintptr) (cu.DevicePtr, error) {
	p, err := d.Driver.MemAlloc(ctx, n)
	d.base, d.memory = p, make([]byte, n)
	return p, err
}

func (d *movingDriver) at(p cu.DevicePtr, n uintptr) []byte { return d.memory[p-d.base:][:n] }

func (d *movingDriver) MemcpyHtoDAsync(_ cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, _ cu.Stream) error {
	copy(d.at(dst, n), address.Bytes(src, n))
	return nil
}

func (d *movingDriver) MemcpyDtoHAsync(_ cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr, _ cu.Stream) error {
	copy(address.Bytes(dst, n), d.at(src, n))
	return nil
}

func (d *movingDriver) EventRecord(cu.Context, cu.Event, cu.Stream) error { return nil }
func (d *movingDriver) EventQuery(cu.Context, cu.Event) error             { return nil }
func (d *movingDriver) EventSynchronize(cu.Context, cu.Event) error       { return nil }
func (d *movingDriver) StreamQuery(cu.Context, cu.Stream) error           { return nil }

// stagedTrip is a copy of a slice to the device, and back to another one.
type stagedTrip struct {
	s        *ferry.Stream
	device   *ferry.Device[byte]
	in, out  *ferry.PageableSlice[byte]
	src, dst []byte
}

func newStagedTrip(t *testing.T, g *ferry.GPU, device *ferry.Device[byte]) *stagedTrip {
	t.Helper()
	x := &stagedTrip{s: must(ferry.NewStream(g, nil))(t), device: device, src: make([]byte, device.Len()), dst: make([]byte, device.Len())}
	fillRandom(x.src)
	x.in, x.out = ferry.Pageable(x.src), ferry.Pageable(x.dst)
	t.Cleanup(func() { closeAll(t, x.s) })
	return x
}

// copy changes the bytes at some places, and copies all, with a context if that is not nil.
func (x *stagedTrip) copy(t *testing.T, ctx context.Context) {
	for i := 0; i < len(x.src); i += 4 << 10 {
		x.src[i]++
	}
	var in, out error
	if ctx == nil {
		in, out = ferry.Copy(x.s, x.device, x.in), ferry.Copy(x.s, x.out, x.device)
	} else {
		in, out = ferry.CopyContext(ctx, x.s, x.device, x.in), ferry.CopyContext(ctx, x.s, x.out, x.device)
	}
	if in != nil || out != nil || !bytes.Equal(x.src, x.dst) {
		t.Error("other bytes came back, or", in, out)
	}
}

// mallocs returns how many allocations one of n calls makes, rounded down: the fewest of some tries,
// because a machine that stands still for a while makes workers late, and other ones are made meanwhile.
// Unlike [testing.AllocsPerRun] it lets goroutines run on all processors.
func mallocs(n int, all func()) uint64 {
	fewest := ^uint64(0)
	for i := 0; i < 20 && fewest > 0; i++ {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		all()
		runtime.ReadMemStats(&after)
		fewest = min(fewest, (after.Mallocs-before.Mallocs)/uint64(n))
	}
	return fewest
}

// TestStagingAllocates: once there are slots and workers, a copy of a slice allocates nothing, whether
// one goroutine or several copy, and for one or many callers. The bytes are right meanwhile.
func TestStagingAllocates(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 4 { // so that a transfer has workers
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	}
	canEnd, cancel := context.WithCancel(context.Background())
	defer cancel()
	const callers, rounds = 6, 20
	for _, n := range []int{64 << 10, 300_001, 1 << 20, 9<<20 + 5} {
		d := &movingDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
		g := openDriver(t, d)
		device := must(ferry.Alloc[byte](g, callers*n))(t)
		var all []*stagedTrip
		for i := range callers {
			all = append(all, newStagedTrip(t, g, device.Range(i*n, (i+1)*n)))
		}
		for name, ctx := range map[string]context.Context{"Copy": nil, "CopyContext": context.Background(), "CopyContext that can end": canEnd} {
			at := fmt.Sprintf("%s of %d bytes", name, n)
			many := func() {
				var wait sync.WaitGroup
				for _, x := range all {
					wait.Go(func() {
						for range rounds {
							x.copy(t, ctx)
						}
					})
				}
				wait.Wait()
			}
			one := func() {
				for range rounds {
					all[0].copy(t, ctx)
				}
			}
			many() // makes slots, workers and transfers
			if racebuild.On || sample.Race() {
				continue // a sync.Pool drops things at random there
			}
			if got := testing.AllocsPerRun(rounds, func() { all[0].copy(t, ctx) }); got != 0 {
				t.Errorf("%s, on one processor: %g allocations, want none", at, got)
			}
			if got := mallocs(rounds, one); got != 0 {
				t.Errorf("%s, one caller: %d allocations a round trip, want none", at, got)
			}
			if got := mallocs(callers*rounds, many); got != 0 {
				t.Errorf("%s, %d callers: %d allocations a round trip, want none", at, callers, got)
			}
		}
		closeAll(t, device)
	}
}
