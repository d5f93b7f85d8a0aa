package softgpu

import (
	"bytes"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestDiscardedContents: what a discarded range holds is not what it held before, so that a program
// which reads it all the same shows wrong values on every schedule. Bytes around it stay.
func TestDiscardedContents(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		const n = 1 << 16
		p, err := r.MemAllocManaged(r.ctx, 3*n, cu.MemAttachGlobal)
		r.ok(err)
		r.ok(r.MemsetD8(r.ctx, p, 0x55, 3*n))
		r.sync(0)
		s := r.stream(cu.StreamNonBlocking)
		r.ok(r.MemDiscardBatchAsync(r.ctx, []cu.DevicePtr{p + n}, []uintptr{n}, 0, s))
		r.sync(s)
		got := make([]byte, 3*n)
		r.ok(r.MemcpyDtoH(r.ctx, ptr(got), p, 3*n))
		old := bytes.Repeat([]byte{0x55}, n)
		if !bytes.Equal(got[:n], old) || !bytes.Equal(got[2*n:], old) {
			t.Error("bytes beside the range have changed")
		}
		for i, x := range got[n : 2*n] {
			if x == 0x55 && got[n+i/8*8] == 0x55 && got[n+i/8*8+1] == 0x55 {
				t.Fatalf("byte %d of the discarded range is as before", i)
			}
		}
		r.ok(r.MemFree(r.ctx, p))
	})
}

// TestPlacesOfOldDrivers: a driver without the calls refuses them by name.
func TestPlacesOfOldDrivers(t *testing.T) {
	old := named(t, "h200")
	old.Driver.Value = 12010
	r := newRig(t, Options{Profile: old})
	p, err := r.MemAllocManaged(r.ctx, 4096, cu.MemAttachGlobal)
	r.ok(err)
	host, one, size := cu.MemLocation{Type: cu.MemLocationTypeHost}, []cu.DevicePtr{p}, []uintptr{4096}
	for _, err := range []error{
		r.MemPrefetchAsyncV2(r.ctx, p, 4096, host, 0, 0), r.MemAdviseV2(r.ctx, p, 4096, cu.MemAdviseSetReadMostly, host),
		r.MemPrefetchBatchAsync(r.ctx, one, size, []cu.MemLocation{host}, []uintptr{0}, 0, 0), r.MemDiscardBatchAsync(r.ctx, one, size, 0, 0),
		r.MemDiscardAndPrefetchBatchAsync(r.ctx, one, size, []cu.MemLocation{host}, []uintptr{0}, 0, 0),
	} {
		r.want(cu.ErrorNotSupported, err)
	}
}
