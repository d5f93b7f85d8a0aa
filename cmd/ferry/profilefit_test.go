package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/profile"
)

// fitInput has a part of a run on an H200, which is quick to fit.
const fitInput = "testdata/before.json"

func TestProfileFit(t *testing.T) {
	goldens(t, "profile-fit", "profile", "fit", fitInput)
	out := filepath.Join(t.TempDir(), "mine.json")
	text := want(t, "profile", "fit", fitInput, "--out", out)
	if !strings.Contains(text, "--device soft:"+out) {
		t.Errorf("got %s", text)
	}
	p, err := profile.Load(out)
	if err != nil || p.Name != "mine" {
		t.Fatalf("%v, %v", p, err)
	}
	if got := want(t, "info", "--device", "soft:"+out); !strings.Contains(got, "mine") {
		t.Errorf("got %s", got)
	}
}

func TestProfileFitWrong(t *testing.T) {
	unknown := filepath.Join(t.TempDir(), "unknown.json")
	text, err := os.ReadFile(fitInput)
	if err != nil {
		t.Fatal(err)
	}
	write(t, unknown, strings.ReplaceAll(string(text), "NVIDIA H200", "Other GPU"))
	for line, want := range map[string]struct {
		status int
		part   string
	}{
		"":                                       {exitUsage, "no file of measurements was given"},
		fitInput + " --rounds 0":                 {exitUsage, "want 1 to 10"},
		fitInput + " --out mine.txt":             {exitUsage, "a profile is a .json file"},
		fitInput + " --out " + fitInput:          {exitUsage, "would replace the measurements"},
		fitInput + " --out /nowhere/mine.json":   {exitError, "/nowhere"},
		fitInput + " --base h20":                 {exitError, `no profile "h20"`},
		"absent.json":                            {exitError, "absent.json"},
		"testdata/info-h200.json":                {exitError, "info-h200.json:2:13: the schema is"},
		unknown:                                  {exitError, `no shipped profile is of the device "Other GPU"`},
		fitInput + " " + unknown:                 {exitError, "fitted to one machine"},
		"../../docs/results/grid-soft-h200.json": {exitError, "predictions, not measurements"},
	} {
		if status, out, errs := ferryRun(append([]string{"profile", "fit"}, strings.Fields(line)...)...); status != want.status || out != "" || !strings.Contains(errs, want.part) {
			t.Errorf("%s: status %d, %q, want %d, %q", line, status, errs, want.status, want.part)
		}
	}
}
