package sweep

import (
	"maps"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/public"
)

// withoutScenario has, by the reason, the public functions and methods of the root and of
// package pipeline that no scenario calls. A name without a type stands for that method of all
// types.
var withoutScenario = map[string][]string{
	"makes no driver call": {"Error", "Unwrap", "String", "GPU", "Handle", "Len", "Size", "Pointer", "Range", "Name", "Log", "OnLeak", "Synchronous",
		"Batch.Reset", "GPU.Emulated", "GPU.Fallback", "GPU.LimitHost", "GPU.Now", "GPU.Profile", "GPU.RecordPlaces", "GPU.SetSaveCPU",
		"HostStats", "MemoryPlaces",
		"Kernel.Params", "Module.Kernels", "Module.Log", "Module.Warnings", "PageableSlice.Slice"},
	"opens drivers of its own": {"GPUs", "Open", "OpenAll"},
}

// TestEveryOperation finds public functions and methods that no scenario calls.
func TestEveryOperation(t *testing.T) {
	f := public.New(t)
	all := f.Operations(t, "", "pipeline")
	missing, wrong := public.Missing(all, f.Called(t, ".", "take"), slices.Collect(maps.Values(withoutScenario))...)
	for _, name := range missing {
		t.Errorf("no scenario calls %s: add one, or give a reason in withoutScenario", name)
	}
	for _, name := range wrong {
		t.Errorf("withoutScenario has %s, which a scenario calls, or which is no public operation", name)
	}
	if len(all) < 100 {
		t.Errorf("found only %d operations", len(all))
	}
}
