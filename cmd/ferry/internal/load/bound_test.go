package load

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/softgpu"
	"github.com/ferrygpu/ferry/trace"
)

// TestJudge: the largest part is the bound, and the sentence has its figures.
func TestJudge(t *testing.T) {
	disk := func(n int64) *int64 { return &n }
	const gib = 1 << 30
	for _, c := range []struct {
		p         Parts
		predicted bool
		bound     Bound
		says      string
	}{
		{Parts{Link: 300e6, Rest: 12e6}, false, ByLink, "copies were in progress for 300 ms of 312 ms"},
		{Parts{Link: 10e6, Pinning: 20e6, Rest: 5e6}, false, ByPinning, "waited for it for 20 ms of 35 ms"},
		{Parts{Link: 1e3, Memory: 2e3}, false, ByMemory, "took 2 us of 3 us"},
		{Parts{Link: 1e9, Rest: 3e9, Disk: disk(4 * gib), CPU: 1e9}, false, ByDisk, "the link waited for the files for 3 s of 4 s, and 4 GiB came from it at 1.07 GB/s"},
		{Parts{Link: 1e9, Rest: 3e9, Disk: disk(gib), CPU: 32e9}, false, ByCPU, "which were in memory; 8.0 CPUs were busy"},
		{Parts{Link: 1e9, Rest: 3e9}, false, ByFiles, "the reading of files: the link waited for the files for 3 s of 4 s"},
		{Parts{Link: 1e9, Rest: 3e9, Disk: disk(4 * gib)}, true, ByCalls, "calls of the driver and waits between them: 3 s of 4 s"},
	} {
		if bound, why := c.p.judge(4*gib, c.predicted); bound != c.bound || !strings.Contains(why, c.says) {
			t.Errorf("%+v: %s, %q; want %s, %q", c.p, bound, why, c.bound, c.says)
		}
	}
}

// TestMeasure: the parts add up to the time between the marks, and no time is in two.
func TestMeasure(t *testing.T) {
	r := &trace.Recording{
		Calls: []trace.Call{
			{Name: "cuMemAlloc", Start: 0, End: 90}, // before the first mark
			{Name: markCall, Start: 90, End: 100},
			{Name: "cuMemAlloc", Start: 110, End: 120, Address: 1, Bytes: 1000},
			{Name: "cuMemHostAlloc", Start: 115, End: 140, Address: 2, Bytes: 8},
			{Name: "cuMemHostAlloc", Start: 150, End: 170, Address: 3, Bytes: 4},
			{Name: markCall, Start: 200, End: 210},
			{Name: "cuMemHostRegister", Start: 220, End: 260, Address: 4, Bytes: 2},
		},
		Operations: []trace.Operation{{Start: 135, End: 160}, {Start: 150, End: 155}, {Start: 190, End: 400}},
	}
	p, known := measure(r)
	if want := (Parts{Link: 25 + 10, Pinning: 20 + 10, Memory: 5, Rest: 10 + 20}); !known || p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	r.Operations[0].Untimed = "the driver failed"
	if _, known := measure(r); known {
		t.Error("parts without the time of a copy")
	}
	if _, known := measure(&trace.Recording{}); known {
		t.Error("parts without marks")
	}
}

// TestRecordedAlready: calls that are recorded anywhere among the wrappers are not recorded twice.
func TestRecordedAlready(t *testing.T) {
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := trace.Start(&trace.Options{Path: filepath.Join(t.TempDir(), "recording.json")})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, driver := range []cu.Driver{d, fault.Wrap(r.Wrap(d), fault.Options{})} {
		g, err := ferry.OpenDriver(driver, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		m, err := newMeter(g)
		if err != nil {
			t.Fatal(err)
		}
		if records := m.recorder != nil; records != (driver == cu.Driver(d)) {
			t.Errorf("%T: newMeter records calls: %t", driver, records)
		}
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestUnits: times and sizes have three digits.
func TestUnits(t *testing.T) {
	for ns, want := range map[int64]string{0: "0 ns", 999: "999 ns", 1234: "1.23 us", 999_950: "1 ms", 6_705_400: "6.71 ms", 59_900_000_000: "59.9 s", 1_234_000_000_000: "1234 s"} {
		if got := short(ns); got != want {
			t.Errorf("%d ns: %s, want %s", ns, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1 << 20: "1 MiB", 16060522496: "15 GiB", 1002 << 20: "1002 MiB", 3 << 40: "3072 GiB"} {
		if got := size(n); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
	for bytes, want := range map[int64]string{16060522496: "51.5 GB/s", 4360: "0.014 MB/s", 200e6: "641 MB/s", 311_900_000: "1000 MB/s"} {
		if got := rate(bytes, 312e6); got != want {
			t.Errorf("%d bytes: %s, want %s", bytes, got, want)
		}
	}
}

// TestFileNames: a name of a file stands within its line.
func TestFileNames(t *testing.T) {
	for _, files := range [][]string{{"m\n\nThe tensors fit."}, {"a", "m\n\nThe tensors fit."}, {"m\n\nThe tensors fit.", "z"}} {
		r := &Report{Device: "soft:h200", Files: files}
		if text := r.Page().Text(0); strings.Contains(text, "\nThe tensors fit") || !strings.Contains(text, `m\n\nThe tensors fit.`) {
			t.Errorf("%q", text)
		}
	}
}
