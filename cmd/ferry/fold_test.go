package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

func TestFold(t *testing.T) {
	const table = "floats   pinned  managed   kernel\n  2^10  21.4 us  85.8 us  10.0 us\n  2^11  22.2 us  99.6 us  10.0 us"
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{table, 0, table},
		{table, 33, table},
		{table, 20, "floats   pinned\n  2^10  21.4 us\n  2^11  22.2 us\n\nfloats  managed\n  2^10  85.8 us\n  2^11  99.6 us\n\nfloats   kernel\n  2^10  10.0 us\n  2^11  10.0 us"},
		{"one two three four", 9, "one two\nthree\nfour"},
		{"  one two three", 9, "  one two\n  three"},
		{"short\n\none two three\n", 9, "short\n\none two\nthree\n"},
		{"averylongword two", 5, "averylongword\ntwo"},
	} {
		got := fold(c.text, c.columns)
		if got != c.want {
			t.Errorf("%d columns: got\n%s\nwant\n%s", c.columns, got, c.want)
		}
	}
}

// TestFoldColour: escape sequences need no columns, and stay with their letters.
func TestFoldColour(t *testing.T) {
	const table = "size   a    b\n   1  10  \x1b[1m 20\x1b[0m\n   2  11   21"
	if got := fold(table, 13); got != table {
		t.Errorf("got %q", got)
	}
	got := fold(table, 8)
	if want := "size   a\n   1  10\n   2  11\n\nsize   b\n   1  \x1b[1m 20\x1b[0m\n   2   21"; squeeze(got) != squeeze(want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// squeeze makes runs of spaces one.
func squeeze(text string) string { return regexp.MustCompile(` +`).ReplaceAllString(text, " ") }

// TestFoldReports folds what the commands print. No word is lost, and no line is too long.
func TestFoldReports(t *testing.T) {
	for _, args := range sample.Of(t, [][]string{
		{"compare", "--device", "soft", "--max", "12"},
		{"info", "--device", "soft"},
		{"profile", "list"},
		{"profile", "show", "h200"},
		{"bench", "--device", "soft", "--only", "fill"},
	}, 3) {
		text := want(t, args...)
		for _, columns := range []int{60, 79, 100} {
			if args[0] == "profile" && args[1] == "show" && columns < 100 {
				continue // the field and the curve are wider; only a whole column moves
			}
			folded := fold(text, columns)
			for line := range strings.Lines(folded) {
				if line = strings.TrimSuffix(line, "\n"); len([]rune(line)) > columns && strings.Contains(strings.TrimSpace(line), " ") {
					t.Errorf("%v in %d columns: %q", args, columns, line)
				}
			}
			have := map[string]bool{}
			for word := range strings.FieldsSeq(folded) {
				have[word] = true
			}
			for word := range strings.FieldsSeq(text) {
				if !have[word] {
					t.Errorf("%v in %d columns: %q is lost", args, columns, word)
				}
			}
		}
	}
}
