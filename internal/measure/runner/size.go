package runner

import (
	"strconv"
	"strings"
	"unicode"
)

// Expand replaces the word N in the text of an argument by a number, and reports whether
// there was one: "in:f32=random[N*N]" becomes "in:f32=random[64*64]". It leaves the N of
// other words, such as NaN, and file names after "@".
func Expand(text string, n int) (expanded string, found bool) {
	text, file, isFile := strings.Cut(text, "@")
	var b strings.Builder
	word := func(i int) bool {
		return i >= 0 && i < len(text) && (text[i] == '_' || unicode.IsLetter(rune(text[i])) || unicode.IsDigit(rune(text[i])))
	}
	for i := range len(text) {
		if text[i] == 'N' && !word(i-1) && !word(i+1) {
			b.WriteString(strconv.Itoa(n))
			found = true
		} else {
			b.WriteByte(text[i])
		}
	}
	if isFile {
		b.WriteString("@" + file)
	}
	return b.String(), found
}
