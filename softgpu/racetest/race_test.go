//go:build race

package racetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// childVariable makes the test binary run programs and nothing else. Its value is a schedule,
// a space, and the names of programs, separated by commas, or "all".
const childVariable = "FERRY_RACETEST_CHILD"

// TestMain runs the programs in the process that TestReports starts.
func TestMain(m *testing.M) {
	schedule, names, isChild := strings.Cut(os.Getenv(childVariable), " ")
	if !isChild {
		os.Exit(m.Run())
	}
	for _, p := range append(pairs(), distant()...) {
		if (names != "all" || strings.HasPrefix(p.name, "distance/")) && !slices.Contains(strings.Split(names, ","), p.name) {
			continue
		}
		racy := func(r *rig) {
			p.racy(r)
			time.Sleep(5 * time.Millisecond) // lets the GPU execute before the wait at the end, which would hide a race
		}
		if runProgram(p.name+" racy", schedule, racy) != nil && !p.isError() { // work may still run
			time.Sleep(100 * time.Millisecond)
		}
		if schedule == rightSchedule {
			ok(runProgram(p.name+" right", schedule, p.right))
		}
	}
}

// rightSchedule is the schedule under which the correct programs run beside the wrong ones.
// TestRight runs them under all.
const rightSchedule = "eager"

// runProgram runs one program. A line with its name separates the detector's reports.
func runProgram(name, schedule string, program func(*rig)) error {
	fmt.Fprintf(os.Stderr, "\n>> %s\n", name)
	r := newRig(schedule)
	program(r)
	err := r.end()
	fmt.Fprintln(os.Stderr, ended)
	return err
}

// ended is the last line of a program.
const ended = "the program has ended"

// raceReport is the first line of a report of the detector.
const raceReport = "WARNING: DATA RACE"

// isReported reports whether the text of a wrong program has what must show its fault.
func (p *pair) isReported(text string) bool {
	if error, is := strings.CutPrefix(p.op, errorReport); is {
		return strings.Contains(text, errorReport) && strings.Contains(text, error)
	}
	return strings.Contains(text, raceReport) && strings.Contains(text, p.op)
}

// reports runs programs under a schedule and returns the detector's reports by program.
// One run can miss a race: see docs/check.md. So wrong programs without a report run
// up to four times more.
func reports(t *testing.T, schedule string, programs []pair) map[string]string {
	t.Helper()
	var names []string
	for _, p := range programs {
		names = append(names, p.name)
	}
	all := reportsOf(t, schedule, strings.Join(names, ","))
	for range 4 {
		var missed []string
		for _, p := range programs {
			if !p.isReported(all[p.name+" racy"]) {
				missed = append(missed, p.name)
			}
		}
		if len(missed) == 0 {
			break
		}
		t.Logf("the detector missed %s: once more", strings.Join(missed, ", "))
		for name, text := range reportsOf(t, schedule, strings.Join(missed, ",")) {
			if strings.HasSuffix(name, " racy") {
				all[name] = text
			}
		}
	}
	return all
}

// reportsOf is reports for some programs, without a repetition. The detector must not
// suppress reports that look like earlier ones.
func reportsOf(t *testing.T, schedule, names string) map[string]string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	schedule, arguments, _ := strings.Cut(schedule, wholeArguments)
	cmd.Env = append(os.Environ(), childVariable+"="+schedule+" "+names, "FERRY_QUIET=1", "FERRY_RACE="+arguments,
		"GORACE=halt_on_error=0 exitcode=0 atexit_sleep_ms=0 suppress_equal_stacks=0 suppress_equal_addresses=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out[max(0, len(out)-4000):])
	}
	all := map[string]string{}
	for _, part := range bytes.Split(out, []byte("\n>> "))[1:] {
		name, text, _ := strings.Cut(string(part), "\n")
		all[name] = text
	}
	return all
}

// TestReports checks that each wrong program is reported, with the operation and the line that queued it,
// and no correct one. All programs run under one schedule; of the others each runs half of them, drawn, and
// with [sample.Full] all.
func TestReports(t *testing.T) {
	for _, schedule := range []string{"eager", "lazy", "random:1"} {
		t.Run(schedule, func(t *testing.T) {
			t.Parallel()
			programs := pairs()
			if schedule != rightSchedule {
				programs = sample.Of(t, programs, len(programs)/2)
			}
			all := reports(t, schedule, programs)
			for _, p := range programs {
				t.Run(p.name, func(t *testing.T) {
					if schedule == rightSchedule {
						checkRight(t, all[p.name+" right"])
					}
					checkRacy(t, &p, all[p.name+" racy"])
					checkSides(t, p.name, all[p.name+" racy"])
				})
			}
		})
	}
}

// wholeArguments is between a schedule and the value of FERRY_RACE.
const wholeArguments = ", FERRY_RACE="

// TestWholeArguments: with FERRY_RACE=arguments each wrong program is reported, too. Of the correct ones those
// are whose operations use different parts of one buffer of the device.
func TestWholeArguments(t *testing.T) {
	t.Parallel()
	programs := pairs()
	all := reports(t, rightSchedule+wholeArguments+"arguments", programs)
	var parts []string
	for _, p := range programs {
		checkRacy(t, &p, all[p.name+" racy"])
		right := all[p.name+" right"]
		if strings.Contains(right, raceReport) {
			parts = append(parts, p.name)
		} else {
			checkRight(t, right)
		}
	}
	sharing := []string{"pipeline/two-runs-one-output", "pipeline/device-end-beside-a-stream"}
	for _, name := range parts { // the detector may miss one of both
		if !slices.Contains(sharing, name) {
			t.Errorf("the correct program %s has a report, want one for %q alone", name, sharing)
		}
	}
	if len(parts) == 0 {
		t.Errorf("no correct program has a report, want one for %q", sharing)
	}
}

// checkRight checks that a correct program has ended without a report.
func checkRight(t *testing.T, text string) {
	if !strings.Contains(text, ended) || strings.Contains(text, raceReport) || strings.Contains(text, errorReport) {
		t.Errorf("the correct program is reported, or did not run:\n%s", text)
	}
}

// checkRacy checks the reports of a wrong program.
func checkRacy(t *testing.T, p *pair, text string) {
	switch isRace := strings.Contains(text, raceReport); {
	case !isRace && !p.isError():
		t.Fatalf("the racy program is not reported:\n%s", text)
	case isRace && p.isError():
		t.Errorf("the wrong program is reported as a race:\n%s", text)
	case !p.isReported(text):
		t.Errorf("the report has no %s:\n%s", p.op, text)
	}
	if !p.isError() && !queuedHere(t, text) {
		t.Errorf("the report shows no line that queued it:\n%s", text)
	}
}

// topOfHost matches an access of a report whose first frame is a function of a program.
var topOfHost = regexp.MustCompile(`(?mi)^(previous )?(atomic )?(read|write) at .*\n\s+github.com/ferrygpu/ferry/softgpu/racetest\.`)

// checkSides checks of a pair with a case of CuSan whether a race is with the CPU's own access.
func checkSides(t *testing.T, name, text string) {
	for _, c := range cusanCases {
		if c.pair == name && topOfHost.MatchString(text) != c.host {
			t.Errorf("%s: the report has an access of the host: %v, want %v:\n%s", c.name, !c.host, c.host, text)
			return
		}
	}
}

var frame = regexp.MustCompile(`racetest/(\w+_test\.go):(\d+)`)

// queuedHere reports whether a report shows a line of a program with "//
// queued".
func queuedHere(t *testing.T, report string) bool {
	report = report[:min(len(report), 1<<16)] // a program can have thousands of reports
	return slices.ContainsFunc(frame.FindAllStringSubmatch(report, -1), func(m []string) bool {
		text, err := os.ReadFile(m[1])
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(strings.Split(string(text), "\n")[n-1], "// queued")
	})
}

// distant returns programs with a race between two accesses that are far apart. The
// detector keeps the goroutines of the last 2000 operations. If the host waits for the
// operations between, it loses a race after about 250: see docs/check.md.
func distant() (all []pair) {
	for _, between := range []struct {
		name      string
		n         int
		operation func(r *rig)
	}{
		{"fills", 1000, func(r *rig) { r.fill(r.b, r.there, size) }},
		{"fills-and-events", 500, func(r *rig) { r.fill(r.b, r.there, size); r.record(r.e, r.b); r.await(r.c, r.e) }},
		{"fills-and-waits", 200, func(r *rig) { r.fill(r.b, r.there, size); r.sync(r.b) }},
		{"kernels-and-waits", 200, func(r *rig) { r.put(r.b, r.there); r.sync(r.b) }},
	} {
		program := func(end func(r *rig)) func(r *rig) {
			return func(r *rig) {
				r.down(r.a, r.host, r.dev) // queued
				for range between.n {
					between.operation(r)
				}
				end(r)
				sink = r.host[0]
			}
		}
		all = append(all, pair{"distance/" + between.name, "", "copyWrites", program(func(*rig) {}), program(func(r *rig) { r.sync(r.a) })})
	}
	return all
}

// TestDistance checks that races are found over many operations between the accesses. As in
// TestReports, a wrong program without a report runs again.
func TestDistance(t *testing.T) {
	for _, p := range distant() {
		found := false
		for try := 0; try < 5 && !found; try++ {
			all := reportsOf(t, "eager", p.name)
			found = strings.Contains(all[p.name+" racy"], p.op)
			if text := all[p.name+" right"]; strings.Contains(text, raceReport) {
				t.Errorf("%s: the correct program is reported:\n%s", p.name, text)
			}
		}
		if !found {
			t.Errorf("%s: the race is not reported", p.name)
		}
	}
}
