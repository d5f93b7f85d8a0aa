// Package nearest finds the known names that are closest to a misspelled one.
package nearest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/printable"
)

// shown is the number of names that [Ask] proposes.
const shown = 3

// Ask returns a question with the three names of all that are nearest to name, such as
// `did you mean "info", "bind" or "diff"?`. It returns "" if all is empty.
func Ask(name string, all []string) string {
	names := Names(name, all, shown)
	for i, n := range names {
		names[i] = printable.Value(n)
	}
	last := len(names) - 1
	switch last {
	case -1:
		return ""
	case 0:
		return "did you mean " + names[0] + "?"
	}
	return "did you mean " + strings.Join(names[:last], ", ") + " or " + names[last] + "?"
}

// Names returns at most n names of all, the nearest to name first. Case does not count.
// The names with the fewest edits between name and some part of them come first, because
// people write a part of a long name. The edits to the whole name decide between these,
// then the order of all.
func Names(name string, all []string, n int) []string {
	type candidate struct {
		name        string
		part, whole int
	}
	key := []rune(strings.ToLower(name))
	ranked := make([]candidate, len(all))
	for i, a := range all {
		text := []rune(strings.ToLower(a))
		ranked[i] = candidate{a, distance(key, text, true), distance(key, text, false)}
	}
	slices.SortStableFunc(ranked, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.whole, b.whole))
	})
	var out []string
	for _, c := range ranked[:min(n, len(ranked))] {
		out = append(out, c.name)
	}
	return out
}

// distance returns the number of edits that make text, or with part any substring of it,
// from key. An edit inserts, removes or replaces a letter, or exchanges two neighbours.
func distance(key, text []rune, part bool) int {
	row := make([]int, len(text)+1) // edits from key[:i] to text[:j]
	for j := range row {
		if !part {
			row[j] = j
		}
	}
	var last, before []int // the rows of i-1 and of i-2
	for i := range key {
		before, last, row = last, row, make([]int, len(row))
		row[0] = i + 1
		for j := range text {
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+replaced(key[i], text[j]))
			if i > 0 && j > 0 && key[i] == text[j-1] && key[i-1] == text[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	if part {
		return slices.Min(row)
	}
	return row[len(text)]
}

// replaced returns the edits to make b from a.
func replaced(a, b rune) int {
	if a == b {
		return 0
	}
	return 1
}
