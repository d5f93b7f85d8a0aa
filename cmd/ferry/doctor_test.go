package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/doctor"
)

// TestDoctor runs the command on this machine, whatever it is: the exit status must be
// that of the document.
func TestDoctor(t *testing.T) {
	status, out, errs := ferryRun("doctor", "--json", "--device", "soft")
	var r doctor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || (errs != "") != r.Degraded {
		t.Fatalf("%v; stderr %q:\n%s", err, errs, out)
	}
	want := exitOK
	if r.Degraded {
		want = exitFound
	}
	if status != want || r.Schema != doctor.Schema || r.Version != version() || r.Device != nil || len(r.Checks) != len(doctor.Names()) {
		t.Errorf("status %d, want %d:\n%s", status, want, out)
	}
	status, text, errs := ferryRun("doctor", "--device", "soft")
	if status != want || (errs != "") != r.Degraded || !strings.HasSuffix(text, "Nothing of a GPU was checked.\n") {
		t.Errorf("status %d, stderr %q:\n%s", status, errs, text)
	}
	if got := len(strings.Split(text, "\n")); got < len(doctor.Names()) {
		t.Errorf("%d lines:\n%s", got, text)
	}
}

// TestDoctorStatus asks for a GPU that no machine has.
func TestDoctorStatus(t *testing.T) {
	if status, out, _ := ferryRun("doctor", "--device", "cuda:4711"); status != exitFound || !strings.Contains(out, "FAIL  gpu") {
		t.Errorf("status %d:\n%s", status, out)
	}
	for _, args := range [][]string{{"doctor", "--device", "gpu"}, {"doctor", "now"}, {"doctor", "--fast"}} {
		if status, _, errs := ferryRun(args...); status != exitUsage || !strings.Contains(errs, "usage: ferry doctor") {
			t.Errorf("%v: status %d: %s", args, status, errs)
		}
	}
}
