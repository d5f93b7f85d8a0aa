package tracereport

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// processorVariable names Perfetto's trace processor, if it is not in PATH.
const processorVariable = "FERRY_TRACE_PROCESSOR"

// processorQuery counts the slices, the arrows, and the errors of the import.
const processorQuery = `select
 (select count(*) from slice) as slices,
 (select count(*) from flow) as arrows,
 (select ifnull(sum(value), 0) from stats where severity in ('error', 'data_loss')) as errors;
`

// TestTraceProcessor: Perfetto's own trace processor loads the JSON without an error, with
// every slice and arrow.
func TestTraceProcessor(t *testing.T) {
	program, err := exec.LookPath(cmp.Or(os.Getenv(processorVariable), "trace_processor_shell"))
	if err != nil {
		t.Skipf("no trace processor of Perfetto: set %s to one from https://github.com/google/perfetto/releases: %v", processorVariable, err)
	}
	dir := t.TempDir()
	file, query := filepath.Join(dir, "trace.json"), filepath.Join(dir, "query.sql")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := Perfetto(f, sample()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(query, []byte(processorQuery), 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "-q", query, file).Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	if want := "17,5,0"; !strings.Contains(string(out), want) {
		t.Errorf("slices, arrows, errors: got %s, want %s", out, want)
	}
}
