package softgpu

import (
	"fmt"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// BenchmarkAcquire launches a kernel that acquires a word, with the check of launches, beside
// launches of another stream that the host has not waited for.
func BenchmarkAcquire(b *testing.B) {
	for _, kept := range []int{0, 1000, 100_000} {
		b.Run(fmt.Sprintf("kept=%d", kept), func(b *testing.B) {
			r := newRig(b, Options{Check: "races"})
			m, err := r.ModuleLoadData(r.ctx, []byte(betweenPTX))
			r.ok(err)
			put, err := r.ModuleGetFunction(r.ctx, m, "put")
			r.ok(err)
			acquire, err := r.ModuleGetFunction(r.ctx, m, "acquire")
			r.ok(err)
			s, beside := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
			p, flag := r.alloc(16<<20), r.alloc(4096)
			r.ok(r.MemsetD8(r.ctx, flag, 0, 4096))
			r.ok(r.CtxSynchronize(r.ctx))
			for i := range kept {
				r.ok(r.run(put, 1, 32, beside, p+cu.DevicePtr(i)*128))
			}
			for b.Loop() {
				r.ok(r.run(acquire, 1, 1, s, flag, flag+64))
				r.sync(s)
			}
		})
	}
}
