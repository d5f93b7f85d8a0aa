package tracereport

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/trace"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sample is a recording with operations that overlap, a graph's nodes, a failed call and
// two drivers.
func sample() *trace.Recording {
	return &trace.Recording{
		Program: "add", PID: 7, LostCalls: 3, LostOps: 2, Why: "no space left on device", Cut: "line 9, byte 2048: the last row is incomplete",
		Drivers: []trace.DriverInfo{{ID: 1, Clock: "virtual", Profile: "h200"}, {ID: 2, Clock: "host"}},
		Devices: []trace.DeviceInfo{{ID: 0, Driver: 1, Name: "NVIDIA H200"}, {ID: 1, Driver: 2, Name: "NVIDIA H100"}},
		Sites:   map[int]trace.Site{1: {File: "/src/add/main.go", Line: 12, Func: "main.main"}},
		Calls: []trace.Call{
			{ID: 1, Name: "cuMemcpyHtoDAsync", Driver: 1, Start: 0, End: 1300, Site: 1, Stream: 1, Bytes: 4096},
			{ID: 2, Name: "cuLaunchKernel", Driver: 1, Start: 1300, End: 5000, Site: 1, Stream: 1},
			{ID: 4, Name: "cuGraphLaunch", Driver: 1, Start: 6000, End: 9000, Site: 1, Stream: 1},
			{ID: 3, Name: "cuMemcpyHtoDAsync", Driver: 1, Start: 200, End: 2500, Track: 1, Stream: 2, Bytes: 2000000, Error: "CUDA_ERROR_X"},
			{ID: 5, Name: "cuMemcpyDtoH", Driver: 2, Start: 100, End: 2_000_000_000, Stream: trace.NoStream, Bytes: 3 << 30},
		},
		Operations: []trace.Operation{
			{ID: 1, Call: 1, Name: "[CUDA memcpy HtoD]", Driver: 1, Stream: 1, Engine: "copy in", From: "page-locked", To: "device", Bytes: 4096, Start: 3000, End: 5000, Why: "host"},
			{ID: 2, Call: 2, Name: "add \"x\"", Driver: 1, Stream: 1, Engine: "compute", Start: 6000, End: 16000, After: 1, Why: "order", Part: "link", PartTime: 9000},
			{ID: 3, Call: 4, Name: "inc", Driver: 1, Stream: trace.NoStream, Engine: "compute", Start: 17000, End: 20000, Part: "launch", PartTime: 2500},
			{ID: 4, Call: 4, Name: "inc", Driver: 1, Stream: trace.NoStream, Engine: "compute", Start: 17500, End: 20500, Part: "device memory", PartTime: 2800},
			{ID: 1, Call: 5, Name: "[CUDA memcpy DtoH]", Driver: 2, Device: 1, Engine: "copy out", From: "device", To: "pageable", Bytes: 3 << 30, Start: 500, End: 1_999_000_000, Why: "unknown"},
			{ID: 2, Call: 5, Name: "[CUDA memset]", Driver: 2, Device: 1, Engine: "compute", Untimed: "recorded in a graph"},
			{ID: 3, Call: 99, Name: "[CUDA memset]", Driver: 2, Device: 1, Engine: "compute", Start: 1_998_999_500, End: 1_999_100_000},
		},
	}
}

// golden compares got with a file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// TestSummary: the text and the JSON of a recording.
func TestSummary(t *testing.T) {
	s := Summarize(sample())
	golden(t, "summary.txt", []byte(s.Page().Text(0)))
	text, err := s.JSON()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "summary.json", text)
}

// TestEmpty: a recording without rows has reports too.
func TestEmpty(t *testing.T) {
	text := Summarize(&trace.Recording{Program: "x"}).Page().Text(0)
	if !strings.Contains(text, "there are no calls") || !strings.Contains(text, "GPU activities: none") {
		t.Errorf("got\n%s", text)
	}
	var b bytes.Buffer
	if err := Perfetto(&b, &trace.Recording{}); err != nil || !json.Valid(b.Bytes()) {
		t.Errorf("%v: %s", err, b.String())
	}
}

// TestDuration: five digits, as in the tables of nvprof.
func TestDuration(t *testing.T) {
	for ns, want := range map[int64]string{0: "0ns", 999: "999ns", 1000: "1.0000us", 12345: "12.345us", 123456: "123.46us", 1e6: "1.0000ms", 2_345_678_901: "2.3457s", 123_456_789_012: "123.46s"} {
		if got := Duration(ns); got != want {
			t.Errorf("Duration(%d) = %s, want %s", ns, got, want)
		}
	}
}
