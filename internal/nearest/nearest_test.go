package nearest

import (
	"slices"
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		key, text   string
		whole, part int
	}{
		{"", "", 0, 0},
		{"", "abc", 3, 0},
		{"abc", "", 3, 3},
		{"info", "info", 0, 0},
		{"inof", "info", 1, 1},  // two neighbours exchanged
		{"inffo", "info", 1, 1}, // one removed
		{"ino", "info", 1, 1},   // one inserted
		{"imfo", "info", 1, 1},  // one replaced
		{"kitten", "sitting", 3, 2},
		{"fermi", "fermi-c2050", 6, 0},
		{"femi", "fermi-c2050", 7, 1},
		{"2050", "fermi-c2050", 7, 0},
		{"ü", "u", 1, 1},
	} {
		key, text := []rune(c.key), []rune(c.text)
		if got := distance(key, text, false); got != c.whole {
			t.Errorf("%q to %q: %d edits, want %d", c.key, c.text, got, c.whole)
		}
		if got := distance(key, text, true); got != c.part {
			t.Errorf("%q to a part of %q: %d edits, want %d", c.key, c.text, got, c.part)
		}
	}
}

func TestNames(t *testing.T) {
	commands := []string{"info", "compare", "bench", "run", "compile", "bind"}
	profiles := []string{"a100", "fermi-c2050", "gh200", "h100-pcie", "h200", "orin"}
	for _, c := range []struct {
		name string
		all  []string
		want string
	}{
		{"comp", commands, "compare compile"},
		{"INOF", commands, "info"},
		{"bnech", commands, "bench"},
		{"compares", commands, "compare"},
		{"h20", profiles, "h200 gh200"},
		{"H100", profiles, "h100-pcie"},
		{"fermi", profiles, "fermi-c2050"},
		{"fremi", profiles, "fermi-c2050"},
	} {
		want := strings.Fields(c.want)
		if got := Names(c.name, c.all, len(want)); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", c.name, got, want)
		}
	}
	if got := Names("x", commands, 3); len(got) != 3 {
		t.Errorf("got %q, want three names", got)
	}
	if got := Names("x", nil, 3); got != nil {
		t.Errorf("got %q of no names", got)
	}
}

func TestAsk(t *testing.T) {
	for _, c := range []struct {
		all  []string
		want string
	}{
		{nil, ""},
		{[]string{"a"}, `did you mean "a"?`},
		{[]string{"a", "b"}, `did you mean "a" or "b"?`},
		{[]string{"d", "c", "b", "a"}, `did you mean "a", "d" or "c"?`},
	} {
		if got := Ask("a", c.all); got != c.want {
			t.Errorf("%q: got %s, want %s", c.all, got, c.want)
		}
	}
}

// FuzzNames demands names of the list, and the name itself first.
func FuzzNames(f *testing.F) {
	f.Add("comp", "info compare")
	f.Fuzz(func(t *testing.T, name, list string) {
		all := append(strings.Fields(list), name)
		got := Names(name, all, 3)
		if len(got) != min(3, len(all)) || !strings.EqualFold(got[0], name) && !strings.Contains(strings.ToLower(got[0]), strings.ToLower(name)) {
			t.Errorf("%q in %q: got %q", name, all, got)
		}
	})
}
