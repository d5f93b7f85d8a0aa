package ferry

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// idleDriver makes no copies: its calls return at once. So a benchmark measures Ferry's own cost.
type idleDriver struct{ cu.Driver }

func (d idleDriver) Unwrap() cu.Driver { return d.Driver }

func (d idleDriver) Submit(_ cu.Context, b *cu.Batch) (int, error) { return b.Len(), nil }

func (d idleDriver) MemcpyBatchAsync(cu.Context, []cu.DevicePtr, []cu.DevicePtr, []uintptr, cu.Stream) error {
	return nil
}

// idlePairs returns a stream of an idle driver, and pairs of host and device memory of 4 KiB that
// share their bytes: the driver copies none of them.
func idlePairs(b *testing.B, count int) (*Stream, []Pair[byte]) {
	soft, err := Open("soft")
	if err != nil {
		b.Fatal(err)
	}
	g, err := OpenDriver(idleDriver{soft.Driver()}, 0)
	if err != nil {
		b.Fatal(err)
	}
	s, err := NewStream(g, nil)
	if err != nil {
		b.Fatal(err)
	}
	const size, room = 4 << 10, 1 << 20
	host, errHost := AllocHost[byte](g, room, nil)
	device, errDevice := Alloc[byte](g, room)
	if err := errors.Join(errHost, errDevice); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(host.Close(), device.Close(), s.Close(), g.Close(), soft.Close()); err != nil {
			b.Error(err)
		}
	})
	pairs := make([]Pair[byte], count)
	for i := range pairs {
		at := i * 4224 % (room - size)
		pairs[i] = Pair[byte]{device.Range(at, at+size), host.Range(at, at+size)}
	}
	return s, pairs
}

// BenchmarkCopyAllPairs measures what CopyAll itself costs a pair, by the number of pairs and by
// the call that makes the copies. With memory=new the garbage collector has taken the memory of
// the calls before.
func BenchmarkCopyAllPairs(b *testing.B) {
	for _, count := range []int{1, 16, 256, 4096, 60_000, 1_000_000} {
		for _, way := range []string{"kernel", "batch", "single"} {
			for _, memory := range []string{"reused", "new"} {
				b.Run(fmt.Sprintf("pairs=%d/way=%s/memory=%s", count, way, memory), func(b *testing.B) {
					s, pairs := idlePairs(b, count)
					g := s.state.g
					if way != "kernel" {
						g.copyKernel.f = 0
					}
					g.caps.BatchCopies = way == "batch"
					benchmarkPairs(b, s, pairs, memory == "new")
				})
			}
		}
	}
}

func benchmarkPairs(b *testing.B, s *Stream, pairs []Pair[byte], collect bool) {
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		if collect {
			b.StopTimer()
			copyAlls = sync.Pool{New: copyAlls.New}
			b.StartTimer()
		}
		begin := time.Now()
		if err := CopyAll(s, pairs); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/float64(len(pairs)), "ns/pair")
}
