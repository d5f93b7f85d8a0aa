package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCookbookCommands runs each command of the cookbook on the software GPU. Of "bench"
// only the selection is checked, with times of a file. What profiling.md shows is compared.
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
	profiled := false
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
		status, out, errs := ferryRun(args...)
		if status != exitOK || out == "" {
			t.Errorf("ferry %s: status %d: %s", command, status, errs)
		}
		if args[0] == "trace" && slices.Contains(args, "--") {
			demandTables(t, command, out)
			profiled = true
		}
	}
	if !profiled {
		t.Error("no command of the pages traces a program")
	}
}

// demandTables demands that the output of a command has the lines that stand below it in
// profiling.md, in their order.
func demandTables(t *testing.T, command, output string) {
	t.Helper()
	page, err := os.ReadFile("docs/cookbook/profiling.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), command+"\n```\n\n```text\n")
	block, _, ended := strings.Cut(rest, "```\n")
	if !found || !ended {
		t.Fatalf("profiling.md has no output of ferry %s", command)
	}
	process := regexp.MustCompile(`process \d+`)
	output = process.ReplaceAllString(output, "process N")
	for line := range strings.Lines(process.ReplaceAllString(block, "process N")) {
		_, after, found := strings.Cut(output, line)
		switch {
		case strings.HasPrefix(line, "("): // says how many are left out
		case !found:
			t.Errorf("ferry %s does not print there: %s", command, line)
		default:
			output = after
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
