package api

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// listDriver notes how many copies the driver gets at once, and can refuse one of these lists.
type listDriver struct {
	cu.Driver
	kernel bool  // copies can be made by a kernel
	old    bool  // there is no cuMemcpyBatchAsync
	lists  []int // the copies or launches of each call
	refuse int   // the number of a call, from 1 on, that is refused; or 0
	at     int   // how many calls of a refused Submit are made
}

var errRefused = errors.New("refused by the test")

func (d *listDriver) Unwrap() cu.Driver { return d.Driver }

func (d *listDriver) ModuleGetFunction(ctx cu.Context, m cu.Module, name string) (cu.Function, error) {
	if !d.kernel && name == "gather" {
		return 0, cu.ErrorNotFound
	}
	return d.Driver.ModuleGetFunction(ctx, m, name)
}

func (d *listDriver) DriverGetVersion() (int32, error) {
	if d.old {
		return 12040, nil
	}
	return d.Driver.DriverGetVersion()
}

func (d *listDriver) MemcpyBatchAsync(ctx cu.Context, dsts, srcs []cu.DevicePtr, sizes []uintptr, stream cu.Stream) error {
	if d.lists = append(d.lists, len(dsts)); len(d.lists) == d.refuse {
		return errRefused
	}
	return d.Driver.MemcpyBatchAsync(ctx, dsts, srcs, sizes, stream)
}

func (d *listDriver) Submit(ctx cu.Context, b *cu.Batch) (int, error) {
	if d.lists = append(d.lists, b.Len()); len(d.lists) != d.refuse {
		return d.Driver.Submit(ctx, b)
	}
	var some cu.Batch
	some.Append(b.Calls()[:d.at]...)
	if done, err := d.Driver.Submit(ctx, &some); err != nil {
		return done, err
	}
	return d.at, errRefused
}

// manyPairs are copies of two bytes each, to every fourth byte of the device.
func manyPairs(device *ferry.Device[byte], host func(from, to int) ferry.Memory[byte], count int) (pairs []ferry.Pair[byte]) {
	for i := range count {
		pairs = append(pairs, ferry.Pair[byte]{Dst: device.Range(4*i, 4*i+2), Src: host(2*i, 2*i+2)})
	}
	return pairs
}

// TestCopyAllLists: the driver gets at most 4096 copies at once, whichever call makes them. If
// it refuses the second list, the first is copied, the third is not, and the error names the
// copies.
func TestCopyAllLists(t *testing.T) {
	const count = 9000
	for _, c := range []struct {
		way         string
		kernel, old bool
		lists       []int
		refused     string
		copied      int // if the second list is refused
	}{
		{"batch", false, false, []int{4096, 4096, 808}, "copies 4097 to 8192 of 9000 (17.6 KiB)", 4096},
		{"single", false, true, []int{4096, 4096, 808}, "cuMemcpyHtoDAsync, call 4100 of 9000 for 9000 copies", 4099},
		{"kernel", true, false, []int{20, 20, 5}, "cuLaunchKernel, call 24 of 45 for 9000 copies", 4600},
	} {
		t.Run("way="+c.way, func(t *testing.T) {
			d := &listDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager), kernel: c.kernel, old: c.old, at: 3}
			g := openDriver(t, d)
			s := must(ferry.NewStream(g, nil))(t)
			host, device := must(ferry.AllocHost[byte](g, 2*count, nil))(t), must(ferry.Alloc[byte](g, 4*count))(t)
			defer closeAll(t, host, device, s)
			pairs := manyPairs(device, func(from, to int) ferry.Memory[byte] { return host.Range(from, to) }, count)
			for _, refuse := range []int{0, 2} {
				fillRandom(host.Slice())
				check(t, ferry.Fill(s, device, 0))
				d.lists, d.refuse = nil, refuse
				err, copied := ferry.CopyAll(s, pairs), count
				if refuse == 0 {
					check(t, err)
					if !slices.Equal(d.lists, c.lists) {
						t.Errorf("the driver got lists of %v, want %v", d.lists, c.lists)
					}
				} else {
					wantError(t, err, errRefused, c.refused)
					copied = c.copied
				}
				want := make([]byte, 4*count)
				for i := range copied {
					copy(want[4*i:], host.Slice()[2*i:2*i+2])
				}
				wantBytes(t, must(ferry.Download(device))(t), want)
			}
		})
	}
}

// TestCopyAllListsPageable: the copies of a chunk of the staging ring are bounded too, also if the
// kernel makes them.
func TestCopyAllListsPageable(t *testing.T) {
	count := 30_000
	if sample.Race() {
		count = 9000
	}
	for _, c := range []struct {
		kernel      bool
		least, most int // of the longest list: copies, or launches of up to 200 copies
	}{{false, 2000, 4096}, {true, 15, 20}} {
		d := &listDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager), kernel: c.kernel}
		g := openDriver(t, d)
		s := must(ferry.NewStream(g, nil))(t)
		device := must(ferry.Alloc[byte](g, 4*count))(t)
		host := make([]byte, 2*count)
		fillRandom(host)
		check(t, ferry.Fill(s, device, 0))
		check(t, ferry.CopyAll(s, manyPairs(device, func(from, to int) ferry.Memory[byte] { return ferry.Pageable(host[from:to]) }, count)))
		check(t, s.Wait(context.Background()))
		if len(d.lists) == 0 || slices.Max(d.lists) > c.most || slices.Max(d.lists) < c.least {
			t.Errorf("kernel %t: the driver got lists of %v, want the longest to have %d to %d", c.kernel, d.lists, c.least, c.most)
		}
		want := make([]byte, 4*count)
		for i := range count {
			copy(want[4*i:], host[2*i:2*i+2])
		}
		wantBytes(t, must(ferry.Download(device))(t), want)
		closeAll(t, device, s)
	}
}
