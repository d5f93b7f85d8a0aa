package main

import (
	"regexp"
	"testing"
)

// soMany finds a comment in which a number has no name.
var soMany = regexp.MustCompile(`(?m)^.*//.*\bso many\b.*$`)

// TestWords: comments name a number, or say "the given number", instead of "so many".
func TestWords(t *testing.T) {
	files := 0
	eachFile(t, ".go", func(path, text string) {
		files++
		if path == "internal/gen/words_test.go" {
			return
		}
		for _, line := range soMany.FindAllString(text, -1) {
			t.Errorf("%s: %s", path, line)
		}
	})
	if files < 1000 {
		t.Errorf("%d files were read", files)
	}
}
