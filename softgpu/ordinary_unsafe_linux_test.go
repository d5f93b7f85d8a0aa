package softgpu

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelcost"
)

// On a device that uses the host's page tables, kernels read and write any
// memory of the process.
func TestOrdinaryMemoryInKernels(t *testing.T) {
	const n = 1 << 16
	const pages = syscall.MAP_ANON | syscall.MAP_PRIVATE
	for _, s := range []Schedule{Eager, Lazy} {
		r := newRig(t, Options{Profile: named(t, "gh200"), Schedule: s})
		heap := make([]byte, n)
		var pin runtime.Pinner
		pin.Pin(ptr(heap))
		defer pin.Unpin()
		mapped, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, pages)
		r.ok(err)
		for i, b := range [][]byte{heap, mapped} {
			r.ok(r.run(r.shipped("fill"), 64, 256, 0, cu.DevicePtr(addressOf(ptr(b))), uint32(0x01020304+i), cu.DevicePtr(n/4)))
			r.sync(0)
			if want := bytes.Repeat(binary.LittleEndian.AppendUint32(nil, uint32(0x01020304+i)), n/4); !bytes.Equal(b, want) {
				t.Errorf("%v, memory %d: the kernel wrote other bytes", s, i)
			}
		}

		r.ok(syscall.Mprotect(mapped, syscall.PROT_READ)) // now only reads are allowed
		r.ok(r.run(r.shipped("copy"), 64, 256, 0, r.alloc(n), cu.DevicePtr(addressOf(ptr(mapped))), cu.DevicePtr(n)))
		r.sync(0)
		r.ok(r.run(r.shipped("fill"), 64, 256, 0, cu.DevicePtr(addressOf(ptr(mapped))), uint32(7), cu.DevicePtr(n/4)))
		r.want(cu.ErrorIllegalAddress, r.StreamSynchronize(r.ctx, 0))
		r.ok(syscall.Munmap(mapped))
	}
}

// Unmapping memory that a kernel uses is a fault of the kernel, and does not
// end the process.
func TestOrdinaryMemoryUnmapped(t *testing.T) {
	if raceBuild {
		t.Skip("accesses are reported to the race detector after the memory is unmapped")
	}
	r := newRig(t, Options{Profile: named(t, "gh200")})
	mapped, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_SHARED)
	r.ok(err)
	v := &view{drv: r.Driver, ordinary: true}
	addr := addressOf(ptr(mapped))
	if s := v.Find(addr); s == nil || s.ReadOnly || s.Counter != kernelcost.CountHost || addr < s.Base || addr+4096 > s.Base+s.Size {
		t.Fatalf("got segment %+v around %#x", s, addr)
	}
	r.ok(syscall.Mprotect(mapped, syscall.PROT_NONE))
	if s := v.Find(addr); s != nil {
		t.Errorf("got a segment of memory that cannot be read")
	}
	r.ok(syscall.Mprotect(mapped, syscall.PROT_READ|syscall.PROT_WRITE))
	r.ok(r.run(r.function("ping"), 1, 1, 0, cu.DevicePtr(addr), cu.DevicePtr(addr+128))) // spins on the second word
	for atomic.LoadUint32((*uint32)(ptr(mapped))) == 0 {
		runtime.Gosched()
	}
	r.ok(syscall.Munmap(mapped))
	r.want(cu.ErrorIllegalAddress, r.StreamSynchronize(r.ctx, 0))
}

// A segment of ordinary memory ends at memory that the driver knows.
func TestOrdinarySegmentStopsAtKnownMemory(t *testing.T) {
	r := newRig(t, Options{Profile: named(t, "gh200")})
	const page = 4096
	all, err := syscall.Mmap(-1, 0, 8*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	r.ok(err)
	defer syscall.Munmap(all)
	base := addressOf(ptr(all))
	r.ok(r.MemHostRegister(r.ctx, ptr(all[2*page:]), page, 0))
	r.ok(r.MemHostRegister(r.ctx, ptr(all[5*page:]), page, 0))
	v := &view{drv: r.Driver, ordinary: true}
	s := v.Find(base + 3*page)
	if s == nil || s.Base != base+3*page || s.Size != 2*page {
		t.Errorf("got %+v, want the two pages between the registrations", s)
	}
	r.ok(r.MemHostUnregister(r.ctx, ptr(all[2*page:])))
	r.ok(r.MemHostUnregister(r.ctx, ptr(all[5*page:])))
}

// neighbours returns two slices of n bytes of the Go heap. The n bytes between
// them are not in use.
func neighbours(t *testing.T, n int) (first, third []byte) {
	t.Helper()
	all := make([][]byte, 64)
	for i := range all {
		all[i] = make([]byte, n)
	}
	for i, b := range all[:len(all)-2] {
		if next := addressOf(ptr(b)) + uint64(n); addressOf(ptr(all[i+1])) == next && addressOf(ptr(all[i+2])) == next+uint64(n) {
			return b, all[i+2]
		}
	}
	t.Skip("the heap has no three such slices side by side")
	return nil, nil
}

// Kernels use a Go variable that lies behind an unused part of the heap. A
// pointer to the unused part would crash the process.
func TestOrdinaryMemoryAndTheCollector(t *testing.T) {
	const n = 1 << 20
	r := newRig(t, Options{Profile: named(t, "gh200")})
	before, b := neighbours(t, n)
	runtime.GC()
	r.ok(r.MemHostRegister(r.ctx, ptr(before), n, 0)) // the segment begins where this ends
	v := &view{drv: r.Driver, ordinary: true}
	v.raceWatch(&op{})
	if s := v.Find(addressOf(ptr(b))); s == nil || s.Base != addressOf(ptr(before))+n || s.Data != nil {
		t.Fatalf("got segment %+v around %p", s, ptr(b))
	}
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				debug.FreeOSMemory()
			}
		}
	}()
	fill := r.shipped("fill")
	for i := range 20 {
		r.ok(r.run(fill, 64, 256, 0, cu.DevicePtr(addressOf(ptr(b))), uint32(i)*0x01010101, cu.DevicePtr(n/4)))
		r.sync(0)
		if want := bytes.Repeat([]byte{byte(i)}, n); !bytes.Equal(b, want) {
			t.Fatalf("round %d: the kernel wrote other bytes", i)
		}
	}
	close(stop)
	<-stopped
	r.ok(r.MemHostUnregister(r.ctx, ptr(before)))
	runtime.KeepAlive(before)
}
