package api

import (
	"context"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestReportedMachines: on machines that are known by reports alone, page-locked memory, pools and
// pageable slices have right data, and what the machine refuses is an error that names the reason.
func TestReportedMachines(t *testing.T) {
	for name, c := range map[string]struct{ register, mapped, written, pageable []string }{ // parts of errors; nil if it works
		"gb10":       {register: []string{"HOST_REGISTER_SUPPORTED is 0", "use AllocHost"}},
		"gb300":      {written: []string{"write-combined", "allocate without"}},
		"h200-cc":    {register: []string{"HOST_REGISTER_SUPPORTED is 0", "use AllocHost"}, pageable: []string{"PAGEABLE_MEMORY_ACCESS is 0"}},
		"wsl":        {pageable: []string{"PAGEABLE_MEMORY_ACCESS is 0"}},
		"tesla-c870": {mapped: []string{"CAN_MAP_HOST_MEMORY is 0", "allocate without Mapped"}, pageable: []string{"PAGEABLE_MEMORY_ACCESS is 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := openSoft(t, name, softgpu.Lazy)
			s := must(ferry.NewStream(g, nil))(t)
			module, increment := load(t, g, "increment")
			const n = 10_000
			device := must(ferry.Alloc[float32](g, n))(t)
			run := func(from ferry.Memory[float32], to *ferry.Host[float32]) {
				t.Helper()
				check(t, ferry.Copy(s, device, from))
				check(t, s.Launch(increment, ferry.Cover(n, 256), device, uint64(n)))
				check(t, ferry.Copy(s, to, device))
				if got := to.Slice(); got[0] != 42 || got[n-1] != 42 {
					t.Errorf("got %v and %v, want 42", got[0], got[n-1])
				}
			}
			memory := make([]float32, n)
			for i := range memory {
				memory[i] = 41
			}
			host, pool := must(ferry.AllocHost[float32](g, n, nil))(t), must(ferry.NewPinnedPool(g, nil))(t)
			block := new(ferry.Host[float32])
			check(t, block.Alloc(pool, n))
			copy(block.Slice(), memory)
			run(block, host)
			run(ferry.Pageable(memory), host)

			expect := func(err error, code error, parts []string) bool {
				t.Helper()
				if parts == nil {
					check(t, err)
					return true
				}
				wantError(t, err, code, parts...)
				return false
			}
			if r, err := ferry.Register(g, memory, nil); expect(err, cu.ErrorNotSupported, c.register) {
				run(r, host)
				closeAll(t, r)
			}
			if h, err := ferry.AllocHost[float32](g, n, &ferry.HostOptions{Mapped: true}); expect(err, cu.ErrorNotSupported, c.mapped) {
				closeAll(t, h)
			}
			if h, err := ferry.AllocHost[byte](g, 65<<20, &ferry.HostOptions{WriteCombined: true}); expect(err, cu.ErrorInvalidValue, c.written) {
				closeAll(t, h)
			}
			plain := make([]float32, n)
			if expect(s.Launch(increment, ferry.Cover(n, 256), ferry.Pageable(plain), uint64(n)), cu.ErrorInvalidValue, c.pageable) {
				check(t, s.Wait(context.Background()))
				if plain[0] != 1 || plain[n-1] != 1 {
					t.Errorf("ordinary memory: got %v and %v, want 1", plain[0], plain[n-1])
				}
			}
			closeAll(t, block, pool, host, device, module, s)
		})
	}
}
