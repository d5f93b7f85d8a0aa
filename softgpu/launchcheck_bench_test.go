package softgpu

import (
	"fmt"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// BenchmarkAcquire launches a kernel that acquires a word, with the check of launches, beside
// launches of another stream that the host has not waited for. These write, or release words of
// the page of that word.
func BenchmarkAcquire(b *testing.B) {
	for _, kept := range []int{0, 1000, 100_000} {
		for _, kernel := range []string{"put", "release"} {
			b.Run(fmt.Sprintf("%s/kept=%d", kernel, kept), func(b *testing.B) {
				b.ReportAllocs()
				r := newRig(b, Options{Check: "races"})
				m, err := r.ModuleLoadData(r.ctx, []byte(betweenPTX))
				r.ok(err)
				before, err := r.ModuleGetFunction(r.ctx, m, kernel)
				r.ok(err)
				acquire, err := r.ModuleGetFunction(r.ctx, m, "acquire")
				r.ok(err)
				s, beside := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
				p, flags := r.alloc(16<<20), r.alloc(4096)
				r.ok(r.MemsetD8(r.ctx, flags, 0, 4096))
				r.ok(r.CtxSynchronize(r.ctx))
				for i := range cu.DevicePtr(kept) {
					if kernel == "put" {
						r.ok(r.run(before, 1, 32, beside, p+i*128))
					} else {
						r.ok(r.run(before, 1, 1, beside, flags+128+i%512*4, p+i*4))
					}
				}
				for b.Loop() {
					r.ok(r.run(acquire, 1, 1, s, flags, flags+64))
					r.sync(s)
				}
			})
		}
	}
}
