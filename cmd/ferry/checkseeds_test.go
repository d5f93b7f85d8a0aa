package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/checkrun"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// hiddenVariable names the kernel that the test binary launches as a program of "ferry check",
// with its grid and block.
const hiddenVariable = "FERRY_TEST_HIDDEN"

// TestHiddenProgram is the program that TestCheckSeeds runs: "ferry run" of a kernel.
func TestHiddenProgram(t *testing.T) {
	args := strings.Fields(os.Getenv(hiddenVariable))
	if len(args) != 3 {
		t.Skip("only as a program of TestCheckSeeds")
	}
	status, out, errs := ferryRun("run", "../../softgpu/internal/simt/testdata/orders/orders.ptx", "--kernel", args[0], "--grid", args[1], "--block", args[2],
		"--device", "soft", "inout:u32=iota[64]", "out:u32=[64]", "u32=64")
	if status != exitOK && status != exitFound {
		t.Fatalf("status %d\n%s%s", status, out, errs)
	}
}

// TestCheckSeeds: races that the usual order hides are found within 16 seeds. The command of
// a finding shows it again. The correct twins have none.
func TestCheckSeeds(t *testing.T) {
	program := []string{"--", os.Args[0], "-test.run=^TestHiddenProgram$"}
	kernels := []string{"behind_lock_2x32 2 32", "glance_2x32 2 32", "versions_2x32 2 32", "versions_1x64 1 64", "warps_lock_1x96 1 96", "counted_first_4x32 4 32"}
	kernels = sample.Of(t, kernels, 2)
	for _, k := range kernels {
		t.Setenv(checkrun.ScheduleVariable, "")
		t.Setenv(hiddenVariable, "racy_"+k)
		if status, out, errs := ferryRun(append([]string{"check"}, program...)...); status != exitOK {
			t.Errorf("%s: status %d in the usual order\n%s%s", k, status, out, errs)
		}
		status, out, errs := ferryRun(append([]string{"check", "--seeds", "16"}, program...)...)
		if status != exitFound || !strings.Contains(errs, "seed 16 of 16") {
			t.Errorf("%s: status %d\n%s%s", k, status, out, errs)
			continue
		}
		_, command, _ := strings.Cut(out, "\n  again: ")
		command, _, _ = strings.Cut(command, "\n")
		schedule, rest, _ := strings.Cut(command, " ")
		schedule, found := strings.CutPrefix(schedule, checkrun.ScheduleVariable+"=")
		words := strings.Fields(strings.ReplaceAll(rest, "'", ""))
		if !found || len(words) < 2 || !slices.Equal(words[1:], append([]string{"check"}, program...)) {
			t.Fatalf("%s: the command is %q", k, command)
		}
		t.Setenv(checkrun.ScheduleVariable, schedule)
		if status, out, errs := ferryRun(words[1:]...); status != exitFound {
			t.Errorf("%s: %s has status %d\n%s%s", k, command, status, out, errs)
		}
	}
	t.Setenv(checkrun.ScheduleVariable, "")
	t.Setenv(hiddenVariable, "ok_"+kernels[0])
	status, out, _ := ferryRun(append([]string{"check", "--seeds", "4", "--json"}, program...)...)
	var r checkrun.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK || len(r.Seeds) != 4 || len(r.Findings) != 0 {
		t.Errorf("status %d, %v, %s", status, err, out)
	}
}

// TestCheckSeedsUsage: a number of seeds that makes no sense is an error of usage.
func TestCheckSeedsUsage(t *testing.T) {
	for _, n := range []string{"0", "-1", "100001", "x"} {
		if status, _, errs := ferryRun("check", "--seeds", n, "--", "true"); status != exitUsage {
			t.Errorf("--seeds %s: status %d, %s", n, status, errs)
		}
	}
}

// TestShellWord: a word with other characters than those of a path stands in quotes.
func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{"a/b-c.ptx": "a/b-c.ptx", "out:u32=[4]": "'out:u32=[4]'", "it's": `'it'\''s'`, "": "''", "^A$": "'^A$'"} {
		if got := shellWord(word); got != want {
			t.Errorf("%q is %s, want %s", word, got, want)
		}
	}
}
