package cc

import (
	"slices"
	"strings"
)

// managedMark is the text of the warning by which Ferry's headers say that a file has a managed
// variable.
const managedMark = "ferry cc: a managed variable"

// withoutManaged returns what clang has printed without these warnings, and whether there were any.
func withoutManaged(text string) (rest string, managed bool) {
	var b strings.Builder
	for _, m := range messages(text) {
		if strings.Contains(m, managedMark) {
			managed = true
		} else {
			b.WriteString(m)
		}
	}
	return b.String(), managed
}

// commands returns the commands that clang prints with -###, as words.
func commands(text string) (all [][]string) {
	for line := range strings.Lines(text) {
		if words := quotedWords(line); len(words) > 0 && strings.HasPrefix(line, " \"") {
			all = append(all, words)
		}
	}
	return all
}

// quotedWords splits a line into its words, which stand between quotation marks.
func quotedWords(line string) (words []string) {
	for {
		_, rest, ok := strings.Cut(line, `"`)
		if !ok {
			return words
		}
		var b strings.Builder
		i := 0
		for ; i < len(rest) && rest[i] != '"'; i++ {
			if rest[i] == '\\' && i+1 < len(rest) {
				i++
			}
			b.WriteByte(rest[i])
		}
		words = append(words, b.String())
		line = rest[min(i+1, len(rest)):]
	}
}

// asHIP returns the arguments of clang's compiler with HIP as the language.
func asHIP(args []string) []string {
	out := slices.Clone(args)
	for i := len(out) - 2; i >= 0; i-- { // the last is that of the file
		if out[i] == "-x" && out[i+1] == "cuda" {
			return slices.Concat(out[:i], []string{"-fhip-new-launch-api", "-D__CUDA__=1", "-x", "hip"}, out[i+2:])
		}
	}
	return out
}
