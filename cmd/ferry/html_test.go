package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// TestHTML: --html writes a page beside the report, which stays as it is. For each command,
// text or JSON is drawn.
func TestHTML(t *testing.T) {
	recording := filepath.Join(t.TempDir(), "recording.json")
	want(t, traced(t, "end", "--record", recording)...)
	for name, c := range map[string]struct {
		args []string
		has  []string // in the page
	}{
		"bench":   {[]string{"bench", "--device", "soft:fermi-c2050", "--only", "fill"}, []string{"<h1>ferry bench</h1>", "Bandwidth on the device", "predicted by profile fermi-c2050"}},
		"read":    {[]string{"bench", "--read", "testdata/before.json"}, []string{"Bandwidth of copies over the link", "<td>"}},
		"compare": {[]string{"compare", "--device", "soft:h200", "--min", "10", "--max", "12"}, []string{"Vector addition by kind of memory: time by size", "zero-copy"}},
		"overlap": {[]string{"trace", "overlap", "--order", "depth", "--device", "soft:fermi-c2050"}, []string{"Depth-first issue", `<td class="w">copy in</td>`}},
		"trace":   {[]string{"trace", recording}, []string{"[CUDA memcpy HtoD]", "cuMemcpyHtoDAsync", "trace_test.go:"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, more := range sample.Of(t, [][]string{nil, {"--json"}}, 1) {
				file := filepath.Join(t.TempDir(), name+".html")
				args := append(append([]string{c.args[0]}, more...), c.args[1:]...)
				if name == "overlap" {
					args = append(c.args[:len(c.args):len(c.args)], more...)
				}
				plain := want(t, args...)
				if got := want(t, append(args, "--html", file)...); got != plain {
					t.Errorf("%v: with --html the output is %s", args, got)
				}
				text, err := os.ReadFile(file)
				if err != nil {
					t.Error(err)
				}
				for _, part := range append(c.has, "<!DOCTYPE html>", "</html>") {
					if !strings.Contains(string(text), part) {
						t.Errorf("%v: the page lacks %q", args, part)
					}
				}
			}
		})
	}
}

// TestHTMLPartial: the page and the document of a partial result say so, too, when it is read
// from a file.
func TestHTMLPartial(t *testing.T) {
	dir := t.TempDir()
	file, html := filepath.Join(dir, "partial.json"), filepath.Join(dir, "page.html")
	text, err := os.ReadFile("testdata/before.json")
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.Replace(string(text), "{", `{"partial": "interrupted",`, 1))
	if out := want(t, "bench", "--read", file, "--json", "--html", html); strings.Count(out, `"partial": "interrupted"`) != 1 {
		t.Errorf("got %.300s", out)
	}
	if page, err := os.ReadFile(html); err != nil || !strings.Contains(string(page), "This result is partial: interrupted.") {
		t.Errorf("%v: the page does not say that it is partial", err)
	}
}

// TestHTMLProgram: the page of a program that is run.
func TestHTMLProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.html")
	want(t, traced(t, "end", "--html", file)...)
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "[CUDA memcpy HtoD]") {
		t.Errorf("%v: %.300s", err, text)
	}
}

// TestBadHTML: a page that cannot be written is refused before anything is measured, and a
// file is left as it was.
func TestBadHTML(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept.json")
	text, err := os.ReadFile("testdata/before.json")
	if err != nil {
		t.Fatal(err)
	}
	write(t, kept, string(text))
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"bench", "--device", "soft", "--html", filepath.Join(dir, "no", "page.html")}, exitError, "no such file or directory"},
		{[]string{"compare", "--device", "soft", "--html", dir}, exitError, "is a directory"},
		{[]string{"trace", "overlap", "--order", "depth", "--device", "soft", "--html", kept + "/page.html"}, exitError, "not a directory"},
		{[]string{"trace", "--html", dir, "--", "touch", filepath.Join(dir, "ran")}, exitError, "is a directory"},
		{[]string{"bench", "--html", ""}, exitUsage, "want the name of a file"},
		{[]string{"bench", "--html", "-"}, exitUsage, "want the name of a file"},
		{[]string{"bench", "--read", kept, "--html", kept}, exitUsage, "would replace"},
		{[]string{"bench", "--device", "soft", "--normal", kept, "--html", kept}, exitUsage, "would replace"},
		{[]string{"bench", "--list", "--html", filepath.Join(dir, "x.html")}, exitUsage, "--html and --list"},
		{[]string{"trace", "--html", kept, kept}, exitUsage, "would replace"},
		{[]string{"bench", "--against", kept, "--html", filepath.Join(dir, "x.html")}, exitUsage, "--html and --against"},
		{[]string{"trace", "--perfetto", "-", "--html", filepath.Join(dir, "x.html"), kept}, exitUsage, "--html and --perfetto"},
	} {
		status, out, errs := ferryRun(c.args...)
		if status != c.status || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: status %d, stdout %q, stderr %q", c.args, status, out, errs)
		}
	}
	if after, err := os.ReadFile(kept); err != nil || string(after) != string(text) {
		t.Errorf("a file was changed: %v", err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("files were left, or a program ran: %v, %v", all, err)
	}
}
