package check_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/libcuda"
)

// Other tools watch the same programs, without package check: each program is a process, which
// is this test binary with -program.
var (
	program   = flag.String("program", "", "run one program without the check: wrong:NAME or right:NAME")
	record    = flag.Bool("record", false, "let another tool watch all programs, and write docs/results")
	sanitizer = flag.String("sanitizer", "compute-sanitizer", "the compute-sanitizer of TestComputeSanitizer")
	parallel  = flag.Int("processes", runtime.GOMAXPROCS(0), "how many programs run at once")
)

// What a program writes at its end.
const (
	ended  = "program: ended"
	failed = "program: error: "
)

// What a tool says of a program: its report, or one of these.
const (
	saysNothing = "nothing"
	saysError   = "error" // a call of the program returned one
	notRun      = "not run"
	diedEarly   = "no end"
)

// TestProgram runs the program of -program.
func TestProgram(t *testing.T) {
	if *program == "" {
		t.Skip("part of the comparison with other tools")
	}
	form, name, _ := strings.Cut(*program, ":")
	p := programs()[name]
	if p == nil {
		t.Fatalf("there is no program %q", name)
	}
	var d cu.Driver
	if os.Getenv("FERRY_REQUIRE_GPU") == "1" {
		d = got(libcuda.Open())
	} else {
		d = software("eager")
	}
	run := p.right
	if form == "wrong" {
		run = p.wrong
	}
	if err := runAlone(d, run, p.kind == check.Leak); err != nil {
		fmt.Println(failed + strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	fmt.Println(ended)
}

// runAlone runs a program. bare frees the memory of the rig before, so that the program's is
// all that can stay.
func runAlone(d cu.Driver, run func(r *rig), bare bool) (err error) {
	r := newRig(d)
	if bare {
		ok(errors.Join(r.MemFree(r.ctx, r.dev), r.MemFree(r.ctx, r.there), r.MemFreeHost(r.ctx, at(r.host)), r.MemFreeHost(r.ctx, at(r.other))))
	}
	defer func() {
		if e, ok := recover().(error); ok {
			err = e
		}
		err = errors.Join(err, r.end())
	}()
	run(r)
	return nil
}

// outcome is what a tool has said of a program.
type outcome struct{ tool, program, form, says string }

// watch lets a tool watch a program, and returns its output with the program's.
func watch(t *testing.T, tool []string, form, name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	args := slices.Concat(tool, []string{os.Args[0], "-test.run=^TestProgram$", "-program=" + form + ":" + name})
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env = append(os.Environ(), checks.Variable+"=0", "FERRY_FAULT=")
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Errorf("%s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// own returns what a program says of itself.
func own(out string) string {
	switch {
	case strings.Contains(out, failed+errOneDevice.Error()):
		return notRun
	case strings.Contains(out, failed):
		return saysError
	case strings.Contains(out, ended):
		return saysNothing
	}
	return diedEarly
}

// all runs f for both forms of the named programs, several at once.
func all(names []string, f func(form, name string) []outcome) (list []outcome) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	places := make(chan bool, *parallel)
	for _, name := range names {
		for _, form := range []string{"wrong", "right"} {
			places <- true
			wait.Go(func() {
				found := f(form, name)
				mu.Lock()
				defer mu.Unlock()
				list = append(list, found...)
				<-places
			})
		}
	}
	wait.Wait()
	slices.SortFunc(list, func(a, b outcome) int {
		return cmp.Or(cmp.Compare(a.program, b.program), -cmp.Compare(a.form, b.form), cmp.Compare(a.tool, b.tool))
	})
	return list
}

const raceFile = "race-detector.tsv"

// TestRaceDetector runs programs in processes with Go's race detector, and compares what it
// says with docs/results. With -record it runs all programs and writes that file.
func TestRaceDetector(t *testing.T) {
	if !racebuild.On {
		t.Skip("not a race build")
	}
	names := slices.Sorted(maps.Keys(programs()))
	if !*record {
		names = []string{"copy-beside-fill", "copy-after-free", "graph-branches", "uninitialized"}
		for name, p := range programs() {
			if p.kind == onlyRace {
				names = append(names, name)
			}
		}
	}
	list := all(names, func(form, name string) []outcome {
		out := watch(t, nil, form, name)
		says := own(out)
		if strings.Contains(out, "WARNING: DATA RACE") {
			says = "race"
		}
		return []outcome{{"race", name, form, says}}
	})
	if *record {
		writeOutcomes(t, raceFile, "the race detector of "+runtime.Version()+", software GPU, schedule eager", list)
		return
	}
	recorded := readOutcomes(t, raceFile)
	for name, p := range programs() {
		if says := reports(recorded, name, "wrong"); p.kind == onlyRace && says != "reported" {
			t.Errorf("%s is to be reported by race builds, and %s says %q", name, raceFile, says)
		}
	}
	for _, x := range list {
		if !slices.Contains(recorded, x) {
			t.Errorf("the race detector says %q of the %s program %s; %s differs", x.says, x.form, x.program, raceFile)
		}
	}
}

const sanitizerFile = "compute-sanitizer-h200.tsv"

// TestComputeSanitizer lets compute-sanitizer watch each program on a GPU. With -record it
// writes docs/results, or to the folder that OUT names.
func TestComputeSanitizer(t *testing.T) {
	if os.Getenv("FERRY_REQUIRE_GPU") != "1" {
		t.Skip("needs a GPU: FERRY_REQUIRE_GPU=1")
	}
	version, err := exec.Command(*sanitizer, "--version").Output()
	if err != nil {
		t.Skipf("no compute-sanitizer: %v", err)
	}
	d, err := libcuda.Open()
	if err != nil {
		t.Fatal(err)
	}
	ok(d.Init(0))
	gpu := got(d.DeviceGetName(0))
	list := all(slices.Sorted(maps.Keys(programs())), func(form, name string) (list []outcome) {
		for _, tool := range [][]string{{"memcheck"}, {"memcheck", "--leak-check", "full"}, {"initcheck"}} {
			args := append([]string{*sanitizer, "--tool"}, tool...)
			if len(tool) > 1 && name != "leak" { // most programs leave memory to the end of the context
				continue
			}
			list = append(list, outcome{strings.Join(tool, " "), name, form, reported(watch(t, args, form, name))})
		}
		return list
	})
	if *record {
		lines := strings.Split(strings.TrimSpace(string(version)), "\n")
		writeOutcomes(t, sanitizerFile, fmt.Sprintf("%s, driver CUDA %d, %s, %s", gpu, got(d.DriverGetVersion()), lines[len(lines)-1], runtime.Version()), list)
	}
	for _, x := range list {
		if x.says == diedEarly {
			t.Logf("%s of the %s program %s: no end", x.tool, x.form, x.program)
		}
	}
}

// reported returns the first line of a report of compute-sanitizer that is not about an error
// which the program gets itself.
func reported(out string) string {
	says := own(out)
	for line := range strings.Lines(out) {
		text, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "========= ")
		switch {
		case !ok || text == "" || text[0] == ' ' || text == "COMPUTE-SANITIZER" || strings.Contains(text, " SUMMARY: ") || strings.HasPrefix(text, "Target application"):
		case strings.HasPrefix(text, "Program hit "):
			says = saysError
		default:
			return strings.ReplaceAll(text, "\t", " ")
		}
	}
	return says
}

// TestReported reads reports of compute-sanitizer.
func TestReported(t *testing.T) {
	const head, none = "========= COMPUTE-SANITIZER\n", "========= ERROR SUMMARY: 0 errors\n"
	for text, want := range map[string]string{
		head + ended + "\n" + none: saysNothing,
		head + "========= Invalid __global__ write of size 4 bytes\n=========     at put+0x90\n" + ended + "\n": "Invalid __global__ write of size 4 bytes",
		head + failed + "x\n" + none: saysError,
		head + "========= Program hit CUDA_ERROR_INVALID_VALUE (error 1) due to \"invalid argument\"\n" + ended: saysError,
		head + ended + "\n========= LEAK SUMMARY: 0 bytes leaked in 0 allocations\n" + none:                     saysNothing,
		head: diedEarly,
		head + failed + errOneDevice.Error() + "\n" + none: notRun,
	} {
		if got := reported(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// reports returns which tools have reported a form of a program.
func reports(list []outcome, program, form string) (says string) {
	none := notRun
	for _, x := range list {
		if x.program != program || x.form != form {
			continue
		}
		none = ""
		switch x.says {
		case saysNothing, diedEarly:
		case saysError, notRun:
			says = cmp.Or(says, x.says)
		default:
			return "reported"
		}
	}
	return cmp.Or(says, none)
}

// others are the tools of the table in docs/generated/check.md, with their data.
var others = []struct{ name, file string }{
	{"Go's race detector", raceFile},
	{"compute-sanitizer", sanitizerFile},
}

// totals returns the rows of the comparison.
func totals(t *testing.T) string {
	var b strings.Builder
	n, found := len(programs()), 0
	for _, p := range programs() {
		if p.kind != onlyRace {
			found++
		}
	}
	fmt.Fprintf(&b, "| tool | wrong programs reported | others that get an error of a call | twins reported |\n|---|---|---|---|\n")
	fmt.Fprintf(&b, "| `FERRY_CHECK=memory` | %d of %d | | 0 |\n", found, n)
	for _, tool := range others {
		list := readOutcomes(t, tool.file)
		count := map[string]int{}
		for name := range programs() {
			for _, form := range []string{"wrong", "right"} {
				count[form+" "+reports(list, name, form)]++
			}
		}
		fmt.Fprintf(&b, "| %s | %d of %d | %d | %d |\n", tool.name, count["wrong reported"], n, count["wrong "+saysError], count["right reported"])
	}
	return b.String()
}

// TestTotals: docs/RELIABILITY.md has the comparison.
func TestTotals(t *testing.T) {
	text, err := os.ReadFile("../docs/RELIABILITY.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := totals(t); !strings.Contains(string(text), want) {
		t.Errorf("docs/RELIABILITY.md lacks:\n%s", want)
	}
}

// writeOutcomes writes a file of docs/results.
func writeOutcomes(t *testing.T, file, with string, list []outcome) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s, commit %s\n# tool\tprogram\tform\tsays\n", with, os.Getenv("FERRY_COMMIT"))
	for _, x := range list {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", x.tool, x.program, x.form, x.says)
	}
	path := filepath.Join(cmp.Or(os.Getenv("OUT"), results), file)
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

const results = "../docs/results"

func readOutcomes(t *testing.T, file string) (list []outcome) {
	text, err := os.ReadFile(filepath.Join(results, file))
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if f := strings.Split(s.Text(), "\t"); len(f) == 4 && !strings.HasPrefix(f[0], "#") {
			list = append(list, outcome{f[0], f[1], f[2], f[3]})
		}
	}
	return list
}
