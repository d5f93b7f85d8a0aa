package cutest

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/softgpu"
)

// allowedDifferences has the facts, by prefix, in which the software H200 may differ
// from the real one, with the reason.
var allowedDifferences = map[string]string{
	"concurrency.":                  "depends on timing",
	"event.":                        "depends on timing",
	"module.jit-log":                "each compiler has its own texts",
	"module.info-log":               "each compiler has its own texts",
	"link.log":                      "each linker has its own texts",
	"link.add":                      "several cases record it, and the code differs between runs of an H200",
	"link.complete":                 "several cases record it, and the code differs between runs of an H200",
	"link/duplicate: ":              "CUDA_ERROR_UNKNOWN in some runs of an H200, CUDA_ERROR_INVALID_SOURCE in others",
	"link/missing: ":                "CUDA_ERROR_UNKNOWN in some runs of an H200, CUDA_ERROR_INVALID_SOURCE in others",
	"function.registers-of-store":   "the software GPU has no registers to count",
	"pinned.alignment":              "the software GPU allocates whole pages",
	"limit.printf.default":          "the software GPU writes printf output at once, without a buffer of this size",
	"fault/shared-memory: wait":     "the software GPU reports it like any bad address, with the place",
	"fault/sticky: ":                "the software GPU reports the fault in every call",
	"module/unknown-instruction: ":  "the software GPU finds it at the launch; other kernels of the module work",
	"launch/parameters-of-wrong-si": "the software GPU refuses a short buffer, which hardware reads past its end",
	"managed/batch-misuse: two ":    "the software GPU refuses two places for one range",
	"virtual/map-past-end: ":        "the software GPU refuses it",
	"graphmemory/no-update: ":       "the software GPU refuses what driver 580 makes at times",
	"pool/set-by-place: set ":       "the software GPU has pools of device memory alone",
	"register/mapped-file-on-disk":  "the software GPU can register it",
}

// TestFactsAgree compares the recorded facts of an H200 with those of the software
// H200.
func TestFactsAgree(t *testing.T) {
	if id, ok := childOf(); ok { // the second process of a case
		runChecks(t, opener(softgpu.Options{}), id, allChecks())
		return
	}
	data, err := os.ReadFile("../docs/results/cutest-h200.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	hardware := map[string]any{}
	ids := map[string]bool{}
	for _, r := range doc.Cases {
		for name, value := range r.Observed {
			if allowedDifference(name) == "" {
				hardware[name], ids[r.ID] = value, true
			}
		}
	}
	var some []check
	for _, k := range allChecks() {
		if ids[k.id] {
			some = append(some, k)
		}
	}
	compared := 0
	for _, r := range run(t, opener(softgpu.Options{}), some).results {
		for name, value := range r.Observed {
			want, ok := hardware[name]
			if !ok {
				continue
			}
			compared++
			if fmt.Sprint(value) != factText(want) {
				t.Errorf("%s: %s is %v, on the H200 %v", r.ID, name, value, factText(want))
			}
		}
	}
	if compared < 15 {
		t.Errorf("%d facts compared, want 15 or more", compared)
	}
}

// factText formats a value of a JSON document as Go formats the original number.
func factText(v any) string {
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		return fmt.Sprint(int64(f))
	}
	return fmt.Sprint(v)
}

func allowedDifference(name string) string {
	for prefix, why := range allowedDifferences {
		if strings.HasPrefix(name, prefix) {
			return why
		}
	}
	return ""
}
