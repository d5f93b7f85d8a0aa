package check_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
)

// bare is a driver that does nothing. Allocations get one address after the other.
type bare struct {
	cu.Driver
	next cu.DevicePtr
}

func (d *bare) MemAlloc(_ cu.Context, n uintptr) (cu.DevicePtr, error) {
	d.next += 1 << 20
	return d.next, nil
}
func (d *bare) MemFree(cu.Context, cu.DevicePtr) error { return nil }
func (d *bare) MemcpyAsync(cu.Context, cu.DevicePtr, cu.DevicePtr, uintptr, cu.Stream) error {
	return nil
}
func (d *bare) LaunchKernel(cu.Context, cu.Function, cu.Dim3, cu.Dim3, uint32, cu.Stream, []byte) error {
	return nil
}

// BenchmarkCalls measures what the check adds to calls, also after many frees.
func BenchmarkCalls(b *testing.B) {
	for _, frees := range []int{0, 4000} {
		d := check.Wrap(&bare{}, check.Options{})
		p := got(d.MemAlloc(1, size))
		for range frees {
			ok(d.MemFree(1, got(d.MemAlloc(1, size))))
		}
		params := make([]byte, 64)
		for i := range 8 {
			binary.LittleEndian.PutUint64(params[8*i:], 1<<50+uint64(i))
		}
		b.Run(fmt.Sprintf("call=MemcpyAsync/frees=%d", frees), func(b *testing.B) {
			for b.Loop() {
				ok(d.MemcpyAsync(1, p, p+size/2, size/2, 1))
			}
		})
		b.Run(fmt.Sprintf("call=LaunchKernel/frees=%d", frees), func(b *testing.B) {
			for b.Loop() {
				ok(d.LaunchKernel(1, 1, cu.Dim3{}, cu.Dim3{}, 0, 1, params))
			}
		})
	}
	for _, n := range []int{10_000, 40_000} {
		b.Run(fmt.Sprintf("call=MemFree/live=%d", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				d := check.Wrap(&bare{}, check.Options{})
				list := make([]cu.DevicePtr, n)
				for i := range list {
					list[i] = got(d.MemAlloc(1, size))
				}
				b.StartTimer()
				for _, p := range list {
					ok(d.MemFree(1, p))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/free")
		})
	}
}
