package profile

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestStagingPage: the table of docs/softgpu/staging.md has every limit of the H200's profile, with
// the values of the profile.
func TestStagingPage(t *testing.T) {
	page, err := os.ReadFile("../docs/softgpu/staging.md")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("h200.json")
	if err != nil {
		t.Fatal(err)
	}
	var h200 struct {
		Staging map[string]struct{ Value float64 }
	}
	if err := json.Unmarshal(data, &h200); err != nil {
		t.Fatal(err)
	}
	field := regexp.MustCompile("`staging\\.([a-z_]+)`")
	seen := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		columns := strings.Split(line, "|")
		if len(columns) != 5 || !field.MatchString(columns[1]) {
			continue
		}
		var want []string
		for _, m := range field.FindAllStringSubmatch(columns[1], -1) {
			v, ok := h200.Staging[m[1]]
			if !ok {
				t.Errorf("the page has staging.%s, the profile does not", m[1])
			}
			seen[m[1]] = true
			want = append(want, stagingText(m[1], v.Value))
		}
		got := strings.ReplaceAll(strings.TrimSpace(columns[3]), " GB/s", "")
		if got != strings.Join(want, ", ") {
			t.Errorf("%s: the page says %q, the profile %q", strings.TrimSpace(columns[1]), got, want)
		}
	}
	for name := range h200.Staging {
		if !seen[name] {
			t.Errorf("the page lacks staging.%s", name)
		}
	}
}

// stagingText returns a value of the profile as the page has it.
func stagingText(name string, v float64) string {
	switch n := int(v); {
	case strings.HasSuffix(name, "_per_s"):
		return fmt.Sprint(v / 1e9)
	case !strings.HasSuffix(name, "_bytes"):
		return fmt.Sprint(n)
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	default:
		return fmt.Sprintf("%d KiB", n>>10)
	}
}
