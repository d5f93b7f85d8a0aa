package cutest

import (
	"strings"
	"testing"
)

func TestCasesAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	groups := map[string]int{}
	for _, k := range Cases() {
		group, name, ok := strings.Cut(k.ID, "/")
		if !ok || group == "" || name == "" || strings.ContainsAny(k.ID, " \t_") {
			t.Errorf("id %q is not of the form group/name", k.ID)
		}
		if seen[k.ID] {
			t.Errorf("id %q is there twice", k.ID)
		}
		seen[k.ID] = true
		groups[group]++
		if len(k.Rule) < 20 {
			t.Errorf("%s: rule %q says too little", k.ID, k.Rule)
		}
		if !strings.Contains(k.Source, ":") {
			t.Errorf("%s: source %q names no manual", k.ID, k.Source)
		}
	}
	if len(seen) < 150 {
		t.Errorf("%d cases, want at least 150", len(seen))
	}
	t.Logf("%d cases: %v", len(seen), groups)
}
