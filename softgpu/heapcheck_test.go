package softgpu

import (
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestCheckHeap runs wrong uses of malloc in kernels and their correct twins, with the check of
// races. Each wrong one has a finding of its kind, and no correct one has any. In free_by_last the
// kind depends on which warp runs first.
func TestCheckHeap(t *testing.T) {
	const none = "memory that is not allocated"
	for name, want := range map[string]string{
		"free_while_read": "race", "free_by_last": none, "used_again": "race", "stale_pointer": "race",
		"read_behind_free": none, "write_behind_free": none, "past_the_end": none, "own_memory": none,
	} {
		for _, ok := range []bool{true, false} {
			m := newModule(t, "testdata/heap.ptx", Options{Check: "races"})
			prefix := "racy_"
			if ok {
				prefix = "ok_"
			}
			out := m.alloc(4096)
			m.ok(m.MemsetD8(m.ctx, out, 0, 4096))
			f, err := m.ModuleGetFunction(m.ctx, m.module, prefix+name)
			m.ok(err)
			m.ok(m.run(f, 1, 64, 0, out))
			m.ok(m.CtxSynchronize(m.ctx))
			found := m.Findings()
			switch {
			case ok && len(found) > 0:
				t.Errorf("%s: %s", name, found[0].String())
			case !ok && !slices.ContainsFunc(found, func(f Finding) bool { return f.Kind == want || f.Kind == "race" && name == "free_by_last" }):
				t.Errorf("%s: no finding of kind %q: %v", name, want, found)
			}
			for _, f := range found {
				if text := f.String(); !strings.Contains(text, "of the heap of malloc in kernels") {
					t.Errorf("%s: %s", name, text)
				}
			}
		}
	}
}

// TestHeapBadFree frees memory twice, and an address within an allocation. Both are errors, also
// without the check.
func TestHeapBadFree(t *testing.T) {
	for _, check := range []string{"0", "races"} {
		for _, name := range []string{"twice", "inside"} {
			m := newModule(t, "testdata/heap.ptx", Options{Check: check})
			f, err := m.ModuleGetFunction(m.ctx, m.module, name)
			m.ok(err)
			m.ok(m.run(f, 1, 32, 0, m.alloc(64)))
			err = m.CtxSynchronize(m.ctx)
			if m.want(cu.ErrorLaunchFailed, err); !strings.Contains(err.Error(), "malloc did not return, or which was freed before") {
				t.Errorf("check %s, %s: %v", check, name, err)
			}
		}
	}
}
