package cutest

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

func TestCasesAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	groups := map[string]int{}
	for _, k := range Cases() {
		group, name, ok := strings.Cut(k.ID, "/")
		if !ok || group == "" || name == "" || strings.ContainsAny(k.ID, " \t_") {
			t.Errorf("id %q does not have the form group/name", k.ID)
		}
		if seen[k.ID] {
			t.Errorf("id %q is used twice", k.ID)
		}
		seen[k.ID] = true
		groups[group]++
		if len(k.Rule) < 20 {
			t.Errorf("%s: rule %q is too short", k.ID, k.Rule)
		}
		if !strings.Contains(k.Source, ":") {
			t.Errorf("%s: source %q names no manual", k.ID, k.Source)
		}
	}
	if len(seen) < 150 {
		t.Errorf("%d cases, want at least 150", len(seen))
	}
	for id, text := range surprises {
		if !seen[id] {
			t.Errorf("a surprise for %q, which is no case", id)
		}
		if len(text) < 15 {
			t.Errorf("%s: surprise %q is too short", id, text)
		}
	}
	t.Logf("%d cases: %v", len(seen), groups)
}

// TestEveryCallHasACase looks for a call of each method of cu.Driver in the cases.
// TestLibcuda runs them on hardware, so every method also has a test there.
func TestEveryCallHasACase(t *testing.T) {
	files, err := filepath.Glob("cases_*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for m := range reflect.TypeFor[cu.Driver]().Methods() {
		if !strings.Contains(source.String(), "."+m.Name+"(") {
			t.Errorf("no case calls %s: add one in cutest/cases_*.go that cites its rule in the manual", m.Name)
		}
	}
}

// TestSemanticsNamesCases demands that every case cited in docs/SEMANTICS.md exists.
func TestSemanticsNamesCases(t *testing.T) {
	text, err := os.ReadFile("../docs/SEMANTICS.md")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, k := range Cases() {
		ids = append(ids, k.ID)
	}
	cited := regexp.MustCompile("`([a-z0-9]+/[a-z0-9*-]+)`").FindAllStringSubmatch(string(text), -1)
	if len(cited) < 80 {
		t.Errorf("%d cases cited, want 80 or more", len(cited))
	}
	for _, m := range cited {
		if !slices.ContainsFunc(ids, func(id string) bool { ok, _ := path.Match(m[1], id); return ok }) {
			t.Errorf("docs/SEMANTICS.md cites %s, which is no case", m[1])
		}
	}
}

func TestJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	t.Setenv("FERRY_CUTEST_JSON", file)
	t.Setenv("FERRY_COMMIT", "0123abc")
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{open: func(testing.TB) cu.Driver { return d }, times: defaultTimes, parent: t}
	s.start(t)
	s.results = []result{{ID: "a/b", Rule: "r", Source: "s", Result: "fail", Reason: "why", MS: 1.5}}
	documents.Store(0)
	s.writeJSON(t)
	s.writeJSON(t)
	for _, name := range []string{file, strings.TrimSuffix(file, ".json") + ".2.json"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var got document
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if got.Schema != "ferry.cutest/1" || got.Driver != "softgpu" || got.Device == "" || !got.Emulated || len(got.Cases) != 1 || got.Cases[0].Reason != "why" ||
			got.Commit != "0123abc" || !strings.HasPrefix(got.Go, "go") || len(got.Date) != len("2026-01-02") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
