package main

import (
	"slices"
	"testing"
)

// TestTargets expects the targets of the inputs that a user gives Ferry.
func TestTargets(t *testing.T) {
	all, err := targets("../..")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range all {
		names = append(names, x.String())
	}
	for _, want := range []string{
		"ptx.FuzzParse", "internal/simt.FuzzRun", "FuzzLoad", "internal/fatbin.FuzzEntries", "internal/runner.FuzzParseArg",
		"profile.FuzzParse", "internal/document.FuzzDecode", "internal/diff.FuzzResults", "trace.FuzzRead", "internal/explain.FuzzReports",
		"softgpu.FuzzEnvironment", "fault.FuzzParse", "FuzzDeviceName", "kerneltest.FuzzCase", "compile.FuzzOptions",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("no target %s in %q", want, names)
		}
	}
}

func TestFigures(t *testing.T) {
	text := "fuzz: elapsed: 3s, execs: 102 (34/sec), new interesting: 1 (total: 7)\nfuzz: elapsed: 6s, execs: 2304 (734/sec), new interesting: 9 (total: 15)\n"
	if execs, kept := figures([]byte(text)); execs != 2304 || kept != 15 {
		t.Errorf("got %d, %d", execs, kept)
	}
	if execs, kept := figures([]byte("fuzz: elapsed: 6s, execs: 2304 (734/sec)\n")); execs != 2304 || kept != 0 {
		t.Errorf("without counters: %d, %d", execs, kept)
	}
	if execs, kept := figures([]byte("PASS\n")); execs != 0 || kept != 0 {
		t.Errorf("got %d, %d", execs, kept)
	}
}

func TestFlags(t *testing.T) {
	for _, bad := range [][]string{{"-time", "0s"}, {"-p", "0"}, {"x"}, {"-run", "("}} {
		if _, err := parseFlags(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
