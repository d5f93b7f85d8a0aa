package main

import (
	"slices"
	"testing"
)

// TestTargets expects the targets of the inputs that a user gives Ferry.
func TestTargets(t *testing.T) {
	all, err := targets("../../..")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range all {
		names = append(names, x.String())
	}
	for _, want := range []string{
		"ptx.FuzzParse", "softgpu/internal/simt.FuzzRun", "internal/test/api.FuzzLoad", "internal/fatbin.FuzzEntries", "internal/measure/runner.FuzzParseArg",
		"profile.FuzzParse", "cmd/ferry/internal/document.FuzzDecode", "cmd/ferry/internal/diff.FuzzResults", "trace.FuzzRead", "cmd/ferry/internal/explain.FuzzReports",
		"softgpu.FuzzEnvironment", "fault.FuzzParse", "internal/devices.FuzzDeviceName", "kerneltest.FuzzCase", "compile.FuzzOptions",
		"nccl/internal/rendezvous.FuzzMessage", "nccl/internal/rendezvous.FuzzHandshake",
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

// TestOnlyTimeIsOver: the end of the time is no failure, a failing input is one.
func TestOnlyTimeIsOver(t *testing.T) {
	const over = "fuzz: elapsed: 5s, execs: 380923 (76871/sec)\n--- FAIL: FuzzDeviceName (5.03s)\n    context deadline exceeded\nFAIL\n"
	for text, want := range map[string]bool{
		over: true,
		"--- FAIL: FuzzX (0.10s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: wrong\n    \n    Failing input written to testdata/fuzz/FuzzX/1\nFAIL\n": false,
		"--- FAIL: FuzzX (0.10s)\n    x_test.go:9: context deadline exceeded\nFAIL\n":                                                                        false,
		over + "panic: wrong\n": false,
	} {
		if got := onlyTimeIsOver([]byte(text)); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
