package rendezvous

import (
	"strconv"
	"strings"
)

// bits packs which ranks are set.
func bits(set []bool) []byte {
	b := make([]byte, (len(set)+7)/8)
	for i, is := range set {
		if is {
			b[i/8] |= 1 << (i % 8)
		}
	}
	return b
}

// ranksIn returns the ranks below size that are set in b.
func ranksIn(b []byte, size int) (set []int) {
	for r := range size {
		if b[r/8]&(1<<(r%8)) != 0 {
			set = append(set, r)
		}
	}
	return set
}

// list returns ranks in rising order as text: "ranks 0 to 2 and 5", "rank 1" or "no rank".
func list(ranks []int) string {
	if len(ranks) == 0 {
		return "no rank"
	}
	var words []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		switch {
		case j > i+1:
			words = append(words, strconv.Itoa(ranks[i])+" to "+strconv.Itoa(ranks[j]))
		default:
			for ; i <= j; i++ {
				words = append(words, strconv.Itoa(ranks[i]))
			}
		}
		i = j + 1
	}
	name := "ranks "
	if len(ranks) == 1 {
		name = "rank "
	}
	if n := len(words) - 1; n > 0 {
		return name + strings.Join(words[:n], ", ") + " and " + words[n]
	}
	return name + words[0]
}
