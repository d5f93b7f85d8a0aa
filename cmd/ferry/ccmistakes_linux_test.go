package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/checkrun"
)

// wrongCUDA has the programs of testdata/cu/mistakes.cu that the checks find, with what begins their
// reports.
var wrongCUDA = map[string]string{
	"host_memory_freed_in_flight": "free in flight: ", "unregistered_in_flight": "free in flight: ", "device_memory_freed_in_flight": "free in flight: ",
	"used_after_free": "use after free: ", "freed_twice": "double free: ", "never_freed": "leak: ", "copy_past_the_end": "out of range: ",
	"copy_too_small": "uninitialized device memory in kernel ", "never_written": "uninitialized: ",
	"no_order_of_streams": "race between launches of kernels ", "event_never_recorded": "unordered: ", "default_stream_assumed": "race between a launch and a copy, ",
	"pageable_copy_assumed_done": "unordered: ", "source_changed": "host in flight: ", "used_before_its_allocation": "before allocation: ",
	"race_of_blocks": "race in kernel ", "no_barrier": "race in kernel ",
}

// staleCUDA has those in which the CPU reads too early. No check but that of TestRace sees its loads:
// under the schedule lazy the program finds the wrong value each time.
var staleCUDA = map[string]string{
	"no_synchronization": "the value is 1, want 7\n", "stale_read": "the value is 1, want 8\n",
	"wrong_stream_synchronized": "the value is 1, want 9\n", "managed_in_use": "the value is 1, want 10\n",
}

// faultCUDA has those that a call tells, with what the software GPU writes to CUDA_LOG_FILE, or the
// program itself.
var faultCUDA = map[string]string{
	"kernel_past_the_end": "CUDA_ERROR_ILLEGAL_ADDRESS: st.global.u32 of 4 bytes", "misaligned": "CUDA_ERROR_MISALIGNED_ADDRESS: st.global.v4.u32 of 16 bytes",
	"callback_calls_cuda": "said: cudaErrorNotPermitted",
}

// TestWrongCUDA runs wrong programs in CUDA C++. Each is found, at its lines, and nothing in its
// correct twin.
func TestWrongCUDA(t *testing.T) {
	library := requireCC(t)
	source := ccProgram("mistakes.cu")
	data, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	program, text := filepath.Join(t.TempDir(), "mistakes"), string(data)
	if status, _, errs := ferryRun("cc", source, "-o", program); status != exitOK || errs != "" {
		t.Fatalf("ferry cc: status %d, stderr %q", status, errs)
	}
	programs := len(wrongCUDA) + len(staleCUDA) + len(faultCUDA)
	if got := strings.Count(text, "(bool right) {"); got != programs {
		t.Errorf("mistakes.cu has %d programs, want %d", got, programs)
	}
	for name, begins := range wrongCUDA {
		wantFinding(t, checkC(t, exitFound, program, name), text, name, begins)
	}
	run := func(args ...string) (string, bool) {
		c := exec.Command(program, args...)
		c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+library, "FERRY_DEVICE=soft", "CUDA_LOG_FILE=stderr")
		out, err := c.CombinedOutput()
		return string(out), err == nil
	}
	for name, want := range staleCUDA {
		t.Setenv("FERRY_SCHEDULE", "lazy")
		if out, ok := run(name); ok || out != want {
			t.Errorf("%s, lazy: got %q, want %q", name, out, want)
		}
	}
	for name, want := range faultCUDA {
		if out, ok := run(name); ok || !strings.Contains(out, want) || !strings.Contains(out, "mistakes.cu"+lineOf(t, text, name+" 1")) {
			t.Errorf("%s: got %q, want %q at mistakes.cu%s", name, out, want, lineOf(t, text, name+" 1"))
		}
	}
	// All correct programs in one process.
	if r := checkC(t, exitOK, program, "all", "right"); len(r.Findings) != 0 || !strings.HasPrefix(r.Watched, "watched: the driver's") {
		t.Errorf("the correct programs: %s", r.Page().Text(0))
	}
	t.Setenv("FERRY_SCHEDULE", "eager")
	if out, ok := run("all", "right"); !ok || !strings.HasSuffix(out, fmt.Sprintf("%d programs ran\n", programs)) {
		t.Errorf("the correct programs, %d of them: %v, %q", programs, ok, out)
	}
}

// wantFinding demands a finding that begins with a text and names the marked lines of a program.
func wantFinding(t *testing.T, r *checkrun.Report, text, name, begins string) {
	t.Helper()
	var found string
	for _, f := range r.Findings {
		if strings.HasPrefix(f.Text, begins) {
			found += f.Text + "\n"
		}
	}
	if found == "" {
		t.Errorf("%s: no finding begins with %q:\n%s", name, begins, r.Page().Text(0))
		return
	}
	for _, mark := range []string{name + " 1", name + " 2", name + " 3"} {
		if mark == "source_changed 2" {
			continue // the CPU's own store, which TestRace alone sees
		}
		if strings.Contains(text, "// "+mark+"\n") && !strings.Contains(found, "mistakes.cu"+lineOf(t, text, mark)) {
			t.Errorf("%s: the report lacks mistakes.cu%s:\n%s", name, lineOf(t, text, mark), found)
		}
	}
}
