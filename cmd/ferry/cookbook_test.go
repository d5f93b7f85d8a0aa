package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCookbookCommands runs each command of the cookbook on the software GPU. Of "bench"
// only the selection is checked, with times of a file.
func TestCookbookCommands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/cookbook/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	commands := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "ferry "); ok {
				commands[command] = true
			}
		}
	}
	t.Chdir("../..")
	t.Setenv("FERRY_DEVICE", "soft")
	for command := range commands {
		args := words(command)
		if args[0] == "bench" {
			file := "docs/results/grid-soft-h200.json"
			if strings.Contains(command, "patterns") {
				file = "docs/results/patterns-soft-h200.json"
			}
			args = append(args, "--read", file)
		}
		if status, out, errs := ferryRun(args...); status != exitOK || out == "" {
			t.Errorf("ferry %s: status %d: %s", command, status, errs)
		}
	}
}

// words splits a command line as a shell does, with quotes but without escapes.
func words(line string) (out []string) {
	var quote rune
	word, begun := "", false
	for _, r := range line + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && r == ' ':
			if begun {
				out = append(out, word)
			}
			word, begun = "", false
		default:
			word, begun = word+string(r), true
		}
	}
	return out
}
