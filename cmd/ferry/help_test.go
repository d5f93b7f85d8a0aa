package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/helptext"
	"github.com/ferrygpu/ferry/profile"
)

// everyCommand returns all commands of the program with their paths as words.
func everyCommand(t *testing.T) map[*cobra.Command][]string {
	t.Helper()
	paths := map[*cobra.Command][]string{}
	for _, c := range all(newRoot(&session{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}})) {
		paths[c] = strings.Fields(c.CommandPath())[1:]
	}
	return paths
}

// TestHelp demands the page of each command, in at most 80 columns, by all ways to it.
func TestHelp(t *testing.T) {
	for c, path := range everyCommand(t) {
		page := want(t, append([]string{"help"}, path...)...)
		golden(t, strings.Join(append([]string{"help"}, path...), "-")+".txt", page)
		for line := range strings.Lines(page) {
			if len(strings.TrimSuffix(line, "\n")) > helpWidth {
				t.Errorf("help %v: a line of %d columns: %s", path, len(line)-1, line)
			}
		}
		if isTopic(c) {
			continue
		}
		for _, how := range [][]string{{"--help"}, {"-h"}, {"-help"}} {
			if got := want(t, append(path[:len(path):len(path)], how...)...); got != page {
				t.Errorf("%v %v does not print what ferry help %v prints", path, how, path)
			}
		}
		if c.HasParent() && !c.HasSubCommands() && (!c.HasExample() || !strings.Contains(c.Example, "ferry "+c.Name()) && !strings.Contains(c.Example, c.CommandPath())) {
			t.Errorf("%v has no example", path)
		}
	}
	overview := want(t)
	if got := want(t, "help"); got != overview {
		t.Errorf("ferry help does not print what ferry prints: %s", got)
	}
	for _, name := range profile.Names() {
		if !strings.Contains(overview, name) {
			t.Errorf("the overview lacks profile %s", name)
		}
	}
	if got := want(t, "info", "word", "--help"); got != want(t, "help", "info") {
		t.Errorf("a word before --help: %s", got)
	}
	for _, args := range [][]string{{"version"}, {"--version"}, {"-version"}} {
		if got := want(t, args...); !strings.HasPrefix(got, "ferry ") || strings.Count(got, "\n") != 1 {
			t.Errorf("%v: %q", args, got)
		}
	}
}

// TestFlagsAreDescribed demands that each flag has a text, and each usage line the flags.
func TestFlagsAreDescribed(t *testing.T) {
	for c, path := range everyCommand(t) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			_, text := describeFlag(f)
			if text == "" {
				t.Errorf("%v: --%s has no description", path, f.Name)
			}
			short := "-" + f.Shorthand + " "
			if c.HasParent() && f.Name != "help" && !strings.Contains(c.Use, "--"+f.Name) && (f.Shorthand == "" || !strings.Contains(c.Use, short)) {
				t.Errorf("%v: the usage line lacks --%s: %s", path, f.Name, c.Use)
			}
		})
	}
}

// TestExitStatuses demands each status in the table.
func TestExitStatuses(t *testing.T) {
	table := want(t, "help", "exit")
	for status, word := range map[string]string{"0": "success", "1": "an error", "2": "usage", "3": "found", "130": "interrupted"} {
		if !strings.Contains(table, "\n  "+status+strings.Repeat(" ", 5-len(status))+word) {
			t.Errorf("the table lacks %s %s:\n%s", status, word, table)
		}
	}
}

// TestExitTable: docs/command.md has the same table.
func TestExitTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	words := func(text string) string {
		return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \n|`", r) }), " ")
	}
	_, rows, ok := strings.Cut(string(page), "|---|---|\n")
	rows, _, ends := strings.Cut(rows, "\n\n")
	_, table, _ := strings.Cut(exitHelp, "\n\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if got, want := words(rows), words(table); !ok || !ends || got != want {
		t.Errorf("docs/command.md has the table\n%s\nwant\n%s", got, want)
	}
}

// TestMan demands a manual page for each command, which groff reads without a warning.
func TestMan(t *testing.T) {
	text := want(t, "man", "info")
	title := fmt.Sprintf(".TH FERRY\\-INFO 1 %s \"ferry %s\" \"Ferry manual\"\n", helptext.Escape(textDate()), helptext.Escape(moduleVersion()))
	if !strings.HasPrefix(text, title) {
		t.Errorf("the page does not begin with %s", title)
	}
	golden(t, "man-info.1", strings.TrimPrefix(text, title))
	dir := filepath.Join(t.TempDir(), "man1")
	want(t, "man", "--dir", dir)
	groff, _ := exec.LookPath("groff")
	for c, path := range everyCommand(t) {
		file := filepath.Join(dir, strings.Join(append([]string{"ferry"}, path...), "-")+".1")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), helptext.Escape(c.Short)) {
			t.Errorf("%s lacks %q", file, c.Short)
		}
		if groff != "" {
			out, err := exec.Command(groff, "-man", "-Tutf8", "-wall", "-rLL=80n", "-P-cbou", file).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v: %s", file, err, out)
			}
			for line := range strings.Lines(string(out)) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
					t.Errorf("%s: a line of %d columns: %s", file, n, line)
				}
			}
		}
	}
	if status, _, errs := ferryRun("man", "--dir", dir, "info"); status != exitUsage {
		t.Errorf("man --dir with a command: status %d, %s", status, errs)
	}
}

// TestCompletion demands what a shell proposes at some places.
func TestCompletion(t *testing.T) {
	kernels := shipped(t)
	for _, c := range []struct {
		args []string
		want []string
		not  []string
	}{
		{[]string{""}, []string{"info\tshow", "profile\t", "help\t"}, []string{"exit"}},
		{[]string{"comp"}, []string{"compare", "compile", "completion"}, []string{"info"}},
		{[]string{"profile", ""}, []string{"list", "show", "check"}, nil},
		{[]string{"profile", "show", ""}, []string{"h200\tNVIDIA H200", "orin"}, nil},
		{[]string{"info", "--"}, []string{"--device", "--json", "--kernel"}, nil},
		{[]string{"info", "--device", ""}, []string{"cuda", "soft:h200\tNVIDIA H200"}, nil},
		{[]string{"bench", "--device", "soft:h"}, []string{"soft:h100-pcie", "soft:h200"}, []string{"soft:orin", "cuda"}},
		{[]string{"bench", "--only", ""}, []string{"copy pinned in", "fill"}, nil},
		{[]string{"run", kernels, "--kernel", "vec"}, []string{"vector_add"}, []string{"fill"}},
		{[]string{"run", kernels, "--memory", ""}, []string{"device", "mapped", "managed"}, nil},
		{[]string{"run", ""}, []string{"ptx", ":8"}, nil},
		{[]string{"compile", "--arch", "sm_8"}, []string{"sm_80", "sm_86"}, []string{"sm_90"}},
		{[]string{"completion", ""}, []string{"bash", "zsh", "fish"}, nil},
		{[]string{"help", "profile", ""}, []string{"list", "show"}, nil},
	} {
		status, out, _ := ferryRun(append([]string{cobra.ShellCompRequestCmd}, c.args...)...)
		lines := "\n" + out
		for _, w := range c.want {
			if !strings.Contains(lines, "\n"+w) {
				t.Errorf("%q: status %d, got %q, want %q", c.args, status, out, w)
			}
		}
		for _, n := range c.not {
			if strings.Contains(lines, "\n"+n) {
				t.Errorf("%q: got %q, which has %q", c.args, out, n)
			}
		}
	}
}

// TestCompletionScripts demands a script for each shell, which the shell accepts.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range shells {
		script := want(t, "completion", shell)
		if !strings.Contains(script, "ferry") || len(script) < 1000 {
			t.Errorf("%s: got %s", shell, script)
		}
		path, err := exec.LookPath(shell)
		if err != nil || shell == "powershell" {
			continue
		}
		check := exec.Command(path, "-n")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s does not accept the script: %v: %s", shell, err, out)
		}
	}
}

// TestUnknownVariable: a command names a misspelled variable, unless FERRY_QUIET is 1, or it runs a
// program, which does so itself.
func TestUnknownVariable(t *testing.T) {
	const want = "ferry: no variable of Ferry: FERRY_CHEK (nearest: FERRY_CHECK); ferry help environment lists all (FERRY_QUIET=1 suppresses this line)\n"
	t.Setenv("FERRY_CHEK", "1")
	for _, c := range []struct {
		quiet string
		args  []string
		want  string
	}{
		{"", []string{"version"}, want},
		{"1", []string{"version"}, ""},
		{"", []string{"check", "--", "true"}, ""},
	} {
		t.Setenv("FERRY_QUIET", c.quiet)
		_, _, errs := ferryRun(c.args...)
		if errs != c.want {
			t.Errorf("%v with FERRY_QUIET=%s: got %q, want %q", c.args, c.quiet, errs, c.want)
		}
	}
}
