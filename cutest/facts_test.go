package cutest

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/softgpu"
)

// ownFacts are what a software H200 need not share with the real one.
var ownFacts = map[string]string{
	"concurrency.":                  "a matter of timing",
	"event.":                        "a matter of timing",
	"module.jit-log":                "each compiler has its words",
	"function.registers-of-store":   "there are no registers to count",
	"pinned.alignment":              "the software GPU gives whole pages",
	"limit.printf.default":          "printf is written at once, its buffer bounds nothing",
	"fault/shared-memory: wait":     "the software GPU says where, as for any address",
	"fault/sticky: ":                "the software GPU tells of the fault whatever is asked",
	"module/unknown-instruction: ":  "found at the launch, with kernels beside it still usable",
	"launch/parameters-of-wrong-si": "the software GPU refuses what hardware reads past",
	"register/mapped-file-on-disk":  "the software GPU can",
}

// TestFactsAgree compares what an H200 was observed to be with what the software
// H200 is.
func TestFactsAgree(t *testing.T) {
	if _, ok := childOf(); ok {
		t.Skip("no case here needs a process")
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
			if own(name) == "" {
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
			if fmt.Sprint(value) != plain(want) {
				t.Errorf("%s: %s is %v, on the H200 %v", r.ID, name, value, plain(want))
			}
		}
	}
	if compared < 15 {
		t.Errorf("%d facts compared, want 15 or more", compared)
	}
}

// plain is a value of a JSON document as Go prints the number that it was.
func plain(v any) string {
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		return fmt.Sprint(int64(f))
	}
	return fmt.Sprint(v)
}

func own(name string) string {
	for prefix, why := range ownFacts {
		if strings.HasPrefix(name, prefix) {
			return why
		}
	}
	return ""
}
