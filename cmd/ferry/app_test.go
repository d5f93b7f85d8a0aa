package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/document"
	"github.com/ferrygpu/ferry/softgpu"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// ferryRun runs the command as a shell would.
func ferryRun(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(context.Background(), args, &out, &errs)
	return status, out.String(), errs.String()
}

// want runs the command and fails unless it succeeds silently.
func want(t *testing.T, args ...string) string {
	t.Helper()
	t.Setenv(softgpu.ScheduleVariable, "eager") // the golden files have its times
	status, out, errs := ferryRun(args...)
	if status != exitOK || errs != "" {
		t.Fatalf("ferry %s: status %d, stderr:\n%s", strings.Join(args, " "), status, errs)
	}
	return out
}

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; create it with go test -update", err)
	}
	if got != string(text) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, text)
	}
}

// isDocument reports whether a text is one indented JSON document with a schema.
func isDocument(text string) bool {
	again, err := document.Indent([]byte(text))
	return err == nil && string(again) == text && strings.HasPrefix(text, "{\n  \"schema\": \"ferry.")
}

func TestUsage(t *testing.T) {
	vectors := []string{"run", "x.ptx", "--kernel", "k", "--grid", "1", "--block", "1"}
	with := func(more ...string) []string { return append(append([]string(nil), vectors...), more...) }
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"fly"}, `there is no command "fly"`},
		{[]string{"comp"}, `did you mean "compare", "compile" or "completion"?`},
		{[]string{"help", "fly"}, `there is no command "fly"`},
		{[]string{"info", "h200"}, `"h200" is not expected here`},
		{[]string{"info", "--fast"}, `not defined: --fast`},
		{[]string{"info", "--json=maybe"}, `invalid boolean value "maybe"`},
		{[]string{"info", "--device"}, `needs an argument: --device`},
		{[]string{"compare", "--min", "ten"}, `invalid value "ten"`},
		{[]string{"compare", "--min", "12", "--max", "11"}, `want 0 <= min <= max <= 30`},
		{[]string{"compare", "--max=31"}, `--max 31`},
		{[]string{"compare", "--min=-1"}, `--min -1`},
		{[]string{"bench", "--set", "kernels"}, `--set "kernels"`},
		{[]string{"bench", "--cases"}, `--cases needs`},
		{[]string{"bench", "--set", "patterns", "--only", "allocate"}, `no kind has that`},
		{[]string{"run"}, `no PTX file`},
		{[]string{"run", "x.ptx", "--grid", "1", "--block", "1"}, `--kernel is required`},
		{[]string{"run", "x.ptx", "--kernel", "k", "--block", "1"}, `--grid is required`},
		{[]string{"run", "x.ptx", "--kernel", "k", "--grid", "1"}, `--block is required`},
		{with("--grid", "1,2,3,4"), `--grid: "1,2,3,4" has 4 numbers`},
		{with("--block", "0"), `--block: "0": X is "0"`},
		{with("--shared", "-1"), `invalid value "-1"`},
		{with("--shared", "4294967296"), `--shared 4294967296`},
		{with("--memory", "pinned"), `--memory: "pinned" is not a kind of memory`},
		{with("--seed", "x"), `invalid value "x"`},
		{with("f32"), `argument "f32": has no "="`},
		{with("f31=1"), `"f31" is not a type`},
		{with("in:f32=1,x"), `value 2 of 2 "x"`},
		{[]string{"compile"}, `no CUDA file`},
		{[]string{"compile", "a.cu", "b.cu"}, `"b.cu" is not expected here`},
		{[]string{"compile", "a.cu", "-o", "-", "--json"}, `both write standard output`},
		{[]string{"compile", "a.cu", "-o", "./a.cu"}, `is the source`},
		{[]string{"compile", "app_test.go", "--arch", "ampere"}, `want a name such as sm_80`},
		{[]string{"compile", "a.cu", "--fast"}, `not defined: --fast`},
	} {
		status, out, errs := ferryRun(c.args...)
		if status != exitUsage || out != "" {
			t.Errorf("%q: status %d, stdout %q", c.args, status, out)
		}
		if !strings.Contains(errs, c.want) {
			t.Errorf("%q: got %q, want it to say %q", c.args, errs, c.want)
		}
		if !strings.Contains(errs, "ferry help") {
			t.Errorf("%q: %q does not mention the help", c.args, errs)
		}
	}
}

// TestFallbackWarning: a command that falls back to the software GPU says so on standard error
// once: the line of package ferry does not come on top. It does not with FERRY_QUIET=1.
func TestFallbackWarning(t *testing.T) {
	if os.Getenv("FERRY_WARNING_CHILD") != "" {
		os.Args = []string{"ferry", "info"}
		main()
	}
	for quiet, want := range map[string]string{
		"":  "ferry: no NVIDIA GPU could be opened: /nonexistent/libcuda.so.1: cannot open shared object file: No such file or directory, so soft:h200 (software, predicts NVIDIA H200) is used (--device cuda reports what was tried)\n",
		"1": "",
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFallbackWarning$")
		cmd.Env = append(os.Environ(), "FERRY_WARNING_CHILD=1", "FERRY_LIBCUDA=/nonexistent/libcuda.so.1", "FERRY_DEVICE=", "FERRY_QUIET="+quiet)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("FERRY_QUIET=%q: %v", quiet, err)
		}
		if got := stderr.String(); got != want {
			t.Errorf("FERRY_QUIET=%q: standard error is %q, want %q", quiet, got, want)
		}
		if !strings.Contains(string(out), "H200") {
			t.Errorf("FERRY_QUIET=%q: standard output is %q", quiet, out)
		}
	}
}

func TestUnknownDevices(t *testing.T) {
	for _, command := range [][]string{{"info"}, {"compare"}} {
		for _, device := range []string{"soft:nothing", "soft:absent.json", "gpu", "soft:h200*0", "cuda:x"} {
			status, out, errs := ferryRun(append(command, "--device", device)...)
			if status != exitError || out != "" || !strings.Contains(errs, device) {
				t.Errorf("%v --device %s: status %d, stdout %q, stderr %q", command, device, status, out, errs)
			}
		}
	}
	if status, _, errs := ferryRun("info", "--device", "soft:nothing"); status != exitError || !strings.Contains(errs, "h200") {
		t.Errorf("the error for an unknown profile does not list the known profiles: %q", errs)
	}
}

func TestInfo(t *testing.T) {
	for _, device := range []string{"soft:h200", "soft:fermi-c2050", "soft:h200*2"} {
		name := "info-" + strings.NewReplacer("soft:", "", "*", "x").Replace(device)
		golden(t, name+".txt", want(t, "info", "--device", device))
		text := want(t, "info", "--json", "--device="+device)
		if !isDocument(text) {
			t.Errorf("%s: not an indented document: %s", device, text)
		}
		golden(t, name+".json", text)
	}
}

func TestInfoKernel(t *testing.T) {
	for _, device := range []string{"h200", "fermi-c2050"} {
		text := want(t, "info", "--kernel", "testdata/facts.ptx", "--device", "soft:"+device)
		golden(t, "kernel-"+device+".txt", text)
		if !strings.Contains(text, "~") {
			t.Errorf("%s: no number is marked as an estimate:\n%s", device, text)
		}
		text = want(t, "info", "--json", "--device", "soft:"+device, "--kernel=testdata/facts.ptx")
		if !isDocument(text) {
			t.Errorf("%s: not an indented document: %s", device, text)
		}
		golden(t, "kernel-"+device+".json", text)
	}
	for file, part := range map[string]string{"testdata/none.ptx": "none.ptx", "testdata/info-h200.txt": "not PTX"} {
		if status, out, errs := ferryRun("info", "--device", "soft", "--kernel", file); status != exitError || out != "" || !strings.Contains(errs, part) {
			t.Errorf("%s: status %d, %q, %q, want %q", file, status, out, errs, part)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, device := range []string{"h200", "fermi-c2050"} {
		golden(t, "compare-"+device+".txt", want(t, "compare", "--device", "soft:"+device, "--min", "10", "--max", "14"))
		text := want(t, "compare", "--json", "--device", "soft:"+device, "--min", "10", "--max", "14")
		golden(t, "compare-"+device+".json", text)
		if again := want(t, "compare", "--json", "--device", "soft:"+device, "--min", "10", "--max", "14"); again != text {
			t.Errorf("%s: two runs differ:\n%s\n%s", device, text, again)
		}
	}
}

// TestCompareSchema reads the JSON document as a user's program would.
func TestCompareSchema(t *testing.T) {
	var doc struct {
		Schema string
		Device struct {
			Name     string
			Emulated bool
			Profile  string
		}
		Rows []map[string]any
	}
	if err := json.Unmarshal([]byte(want(t, "compare", "--device", "soft:fermi-c2050", "--max=11", "--json")), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Schema != "ferry.compare/1" || doc.Device.Profile != "fermi-c2050" || !doc.Device.Emulated || doc.Device.Name == "" || len(doc.Rows) != 2 {
		t.Fatalf("got %+v", doc)
	}
	row := doc.Rows[0]
	if row["elements"] != 1024.0 || row["bytes"] != 4096.0 || row["verified"] != true {
		t.Errorf("got %v", row)
	}
	for _, key := range []string{"pageable_ns", "pinned_ns", "write_combined_ns", "zero_copy_ns", "zero_copy_in_ns", "kernel_ns"} {
		if ns, ok := row[key].(float64); !ok || ns <= 0 {
			t.Errorf("%s is %v", key, row[key])
		}
	}
	for _, key := range []string{"managed_ns", "managed_prefetched_ns"} {
		if v, ok := row[key]; !ok || v != nil {
			t.Errorf("%s is %v, want null: the device has no managed memory", key, v)
		}
	}
}

// TestInterrupted interrupts a command before its first result.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, name := range []string{"compare", "bench"} {
		var out, errs bytes.Buffer
		if status := run(ctx, []string{name, "--device", "soft"}, &out, &errs); status != exitInterrupted || out.Len() > 0 || errs.String() != "ferry "+name+": interrupted\n" {
			t.Errorf("%s: status %d, stdout %q, stderr %q", name, status, out.String(), errs.String())
		}
	}
}

// countdown is a context that is interrupted after a number of calls of Err.
type countdown struct {
	context.Context
	left atomic.Int32
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestPartial interrupts a command after some results. They are written and marked.
func TestPartial(t *testing.T) {
	for name, left := range map[string]int32{"compare": 100, "bench": 20} {
		interrupt := func(args ...string) string {
			t.Helper()
			ctx := &countdown{Context: context.Background()}
			ctx.left.Store(left)
			var out, errs bytes.Buffer
			status := run(ctx, append([]string{name, "--device", "soft"}, args...), &out, &errs)
			want := "ferry " + name + ": interrupted; the results so far were written, and are marked as partial\n"
			if status != exitInterrupted || errs.String() != want {
				t.Errorf("%s %v: status %d, stderr %q", name, args, status, errs.String())
			}
			return out.String()
		}
		if text := interrupt(); !strings.HasSuffix(text, "\nPartial: interrupted.\n") || strings.Contains(text, "WRONG") || strings.Count(text, " us") < 4 {
			t.Errorf("%s: got\n%s", name, text)
		}
		text := interrupt("--json")
		var doc struct {
			Partial      string
			Rows, Points []any
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.Partial != "interrupted" || len(doc.Rows)+len(doc.Points) == 0 || !isDocument(text) {
			t.Errorf("%s: %v, got\n%s", name, err, text)
		}
	}
}

// TestBrokenOutput writes to a closed pipe. The status must be that of an error.
func TestBrokenOutput(t *testing.T) {
	for _, args := range [][]string{{}, {"help"}, {"help", "info"}, {"info", "-h"}, {"version"}, {"--version"}, {"info", "--device", "soft"},
		{"info", "--json", "--device", "soft"}, {"completion", "bash"}, {"man"}, {"profile"}, {"profile", "list"}, {"profile", "show", "h200"}} {
		var errs bytes.Buffer
		if status := run(context.Background(), args, brokenPipe{}, &errs); status != exitError || errs.Len() == 0 {
			t.Errorf("%v: status %d, stderr %q", args, status, errs.String())
		}
	}
}

// TestLostOutput: a command whose output is lost says so before it begins, and does its work.
func TestLostOutput(t *testing.T) {
	const note = "ferry: standard output is /dev/null, or was closed: the output is lost (FERRY_QUIET=1 suppresses this line)\n"
	try := func(args ...string) (status int, out, errs string) {
		var o, e bytes.Buffer
		status = run(context.Background(), args, discarded{&o}, &e)
		return status, o.String(), e.String()
	}
	for _, args := range [][]string{{"version"}, {"profile", "list"}, {"info", "--device", "soft", "--json"}} {
		if status, out, errs := try(args...); status != exitOK || errs != note || out == "" {
			t.Errorf("%v: status %d, stderr %q, output %q", args, status, errs, out)
		}
	}
	if status, _, errs := try("compare", "--device", "soft:nothing"); status != exitError || !strings.HasPrefix(errs, note) {
		t.Errorf("an error: status %d, stderr %q", status, errs)
	}
	if status, _, errs := try("bind", "absent.cu"); status != exitError || !strings.Contains(errs, "absent.cu") || strings.Contains(errs, note) {
		t.Errorf("bind, which writes nothing: status %d, stderr %q", status, errs)
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"bench", "--read", "testdata/before.json", "--html", filepath.Join(dir, "x.html")},
		{"trace", "../../trace/testdata/recording.jsonl", "--perfetto", filepath.Join(dir, "x.json")},
		{"man", "--dir", dir},
		{"check", "--", "true"},
	} {
		if _, _, errs := try(args...); strings.Contains(errs, note) {
			t.Errorf("%v, which makes more than its output: stderr %q", args, errs)
		}
	}
	for _, args := range [][]string{{"trace", "../../trace/testdata/recording.jsonl", "--perfetto", "-"}, {"bench", "--read", "testdata/before.json"}} {
		if _, _, errs := try(args...); !strings.HasPrefix(errs, note) {
			t.Errorf("%v: stderr %q", args, errs)
		}
	}
	t.Setenv("FERRY_QUIET", "1")
	if status, _, errs := try("version"); status != exitOK || errs != "" {
		t.Errorf("with FERRY_QUIET=1: status %d, stderr %q", status, errs)
	}
}

// TestClosedByTheShell gives the command standard outputs as a shell and other programs do.
// Nothing but a full one fails. A lost one, of those that nobody asked for, is said.
func TestClosedByTheShell(t *testing.T) {
	if os.Getenv("FERRY_OUTPUT_CHILD") != "" {
		os.Args = []string{"ferry", "version"}
		main()
	}
	if _, err := os.Stat("/bin/sh"); err != nil || runtime.GOOS != "linux" {
		t.Skip("needs a shell of Linux")
	}
	for redirect, want := range map[string]struct {
		status int
		says   bool
	}{
		">&-": {exitOK, true}, "1<>/dev/null": {exitOK, true}, "0<>/dev/null 1>&0": {exitOK, true},
		">/dev/null": {exitOK, false}, ">/dev/full": {exitError, false}, "| cat": {exitOK, false},
	} {
		cmd := exec.Command("/bin/sh", "-c", `"$0" -test.run='^TestClosedByTheShell$' `+redirect, os.Args[0])
		cmd.Env = append(os.Environ(), "FERRY_OUTPUT_CHILD=1", "FERRY_QUIET=")
		text, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want.status || (want.status == exitOK) != (err == nil) {
			t.Errorf("%s: status %d, want %d: %s", redirect, got, want.status, text)
		}
		if says := strings.Contains(string(text), "the output is lost"); says != want.says {
			t.Errorf("%s: it says %q", redirect, text)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

// TestWrongCommandLines demands the whole answer to each wrong command line: a transcript
// with the exit statuses.
func TestWrongCommandLines(t *testing.T) {
	t.Setenv("FERRY_DEVICE", "")
	var b strings.Builder
	for _, line := range []string{
		"fly", "comp", "help fly", "profile lst", "profile", "help profile shwo", "--fast", "-fast",
		"info -devce soft", "info --fast", "info --device", "info -json=maybe", "info h200",
		"info --device soft:h20", "info --device soft:fermi*2", "compare --min ten", "run --limit 10",
		"bench --only pined", "bench --against absent.json", "bench --against testdata/info-h200.txt", "bench --against testdata/info-h200.json",
		"profile show", "profile show h20", "profile show absent.json", "profile show testdata/info-h200.json", "profile check",
		"diff", "diff a.json", "diff a.json b.json c.json", "diff absent.json absent.json",
		"completion", "completion fsh", "man infos", "compile a.cu -x", "compile a.cu --archh sm_80",
		// What is likely: the answer says what to type.
		"soft", "h200", "testdata/facts.ptx", "testdata/before.json", "testdata/columns/recording.json", "profile h200",
		"info testdata/facts.ptx", "info soft:h200", "trace", "trace go run .", "trace testdata/facts.ptx", "trace testdata/before.json",
		"explain testdata/before.json", "explain copy uva", "explain go run .", "check go test ./...", "check --seeds 4 ./a", "ranks -n 2 ./a",
		"diff testdata/compare-h200.json testdata/compare-h200.json", "diff testdata/before.json testdata/columns/recording.json",
		"bench copy", "bench testdata/before.json", "bench soft", "advise 1MiB", "compare h200", "compare testdata/facts.ptx",
		"run testdata/facts.ptx", "compile testdata/facts.ptx", "trace overlap depth", "doctor h200", "lib x",
		"load testdata/facts.ptx", "load soft", "load testdata/before.json",
	} {
		status, out, errs := ferryRun(strings.Fields(line)...)
		if status != exitOK && out != "" {
			t.Errorf("%s: stdout %q", line, out)
		}
		fmt.Fprintf(&b, "$ ferry %s\n%sexit status %d\n\n", line, errs, status)
	}
	golden(t, "wrong.txt", b.String())
}

// TestOldFlags: the flags of package flag had one dash or two, before and after words.
func TestOldFlags(t *testing.T) {
	kernels := shipped(t)
	for _, c := range [][2][]string{
		{{"info", "--device", "soft:gh200", "--json"}, {"info", "-device", "soft:gh200", "-json"}},
		{{"info", "--device", "soft:gh200", "--json"}, {"info", "-json=true", "-device=soft:gh200"}},
		{{"compare", "--device", "soft", "--min=10", "--max=11"}, {"compare", "-max", "11", "-min=10", "-device", "soft"}},
		{{"info", "--device", "soft", "--kernel", kernels}, {"info", "-kernel", kernels, "-json=false", "-device=soft"}},
	} {
		if got, want := want(t, c[1]...), want(t, c[0]...); got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", c[1], got, want)
		}
	}
	c := newRun(&session{})
	for _, words := range [][2]string{
		{"-seed -1 x", "--seed -1 x"},
		{"x -seed=7 -- -seed", "x --seed=7 -- -seed"},
		{"-bits x -kernel -grid -block", "--bits x --kernel -grid --block"},
		{"- -x --x -xy", "- -x --x --xy"},
		{"-é", "--é"},
	} {
		if got := strings.Join(twoDashes(c, strings.Fields(words[0])), " "); got != words[1] {
			t.Errorf("%s: got %s, want %s", words[0], got, words[1])
		}
	}
}
