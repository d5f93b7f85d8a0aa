package trace

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// disk is a file on a disk that becomes full.
type disk struct {
	data   []byte
	space  int // bytes that fit
	closed bool
}

func (d *disk) Write(p []byte) (int, error) {
	n := min(len(p), d.space-len(d.data))
	d.data = append(d.data, p[:n]...)
	if n < len(p) {
		return n, &os.PathError{Op: "write", Path: "full.json", Err: syscall.ENOSPC}
	}
	return n, nil
}

func (d *disk) WriteAt(p []byte, at int64) (int, error) { return copy(d.data[at:], p), nil }
func (d *disk) Truncate(n int64) error                  { d.data = d.data[:n]; return nil }
func (d *disk) Close() error                            { d.closed = true; return nil }

// fill adds n calls and n operations.
func fill(r *Recorder, n int) {
	d := &Driver{rec: r, id: 1}
	for i := range n {
		c := &call{d: d, name: "cuMemsetD8Async", id: r.newCall(), stream: noStream}
		r.addCall(c, int64(i), nil)
		r.addOp(1, &opRow{id: uint64(i + 1), call: c.id, name: nameMemset, end: 5})
	}
}

// TestFullDisk: when the disk is full, the program goes on, and the recording has whole
// rows and says how many are lost and why.
func TestFullDisk(t *testing.T) {
	r := newRecorder(&Options{Path: "full.json"})
	file := &disk{space: headerBytes + flushBytes + 5000}
	r.open(file)
	const n = 1000
	fill(r, n)
	err := r.Close()
	if err == nil || !strings.Contains(err.Error(), "no space left on device") || !file.closed {
		t.Errorf("Close returns %v, and the file is closed: %v", err, file.closed)
	}
	rec, err := Read(bytes.NewReader(file.data))
	if err != nil || rec.Cut != "" {
		t.Fatal(err, rec)
	}
	if len(rec.Calls) < 100 || len(rec.Calls)+int(rec.LostCalls) != n || len(rec.Operations)+int(rec.LostOps) != n || rec.LostOps == 0 {
		t.Errorf("%d calls and %d lost, %d operations and %d lost, want %d each", len(rec.Calls), rec.LostCalls, len(rec.Operations), rec.LostOps, n)
	}
	if !strings.Contains(rec.Why, "no space left on device") {
		t.Errorf("why is %q", rec.Why)
	}
}

// TestLimit: a recording does not grow above its limit, and counts what comes later.
func TestLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.json")
	const limit, n = 200_000, 3000
	r, err := Start(&Options{Path: path, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	fill(r, n)
	if err := r.Flush(); err == nil || !strings.Contains(err.Error(), "limit of 200000 bytes") {
		t.Errorf("Flush returns %v", err)
	}
	rec, err := ReadFile(path) // while the program still runs
	if err != nil {
		t.Fatal(err)
	}
	info, _ := os.Stat(path)
	if info.Size() > limit || info.Size() < limit/2 || len(rec.Calls)+int(rec.LostCalls) != n || rec.LostCalls == 0 {
		t.Errorf("%d bytes, %d calls and %d lost, want %d", info.Size(), len(rec.Calls), rec.LostCalls, n)
	}
	if err := r.Close(); err == nil {
		t.Error("Close says nothing of lost rows")
	}
	if err := r.Close(); err != nil {
		t.Error("a second Close:", err)
	}
}

// TestFlushedByTime: rows reach the file soon, without a call that waits, so that a crash
// leaves them.
func TestFlushedByTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.json")
	r, err := Start(&Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	fill(r, 3)
	for range 2000 {
		if rec, err := ReadFile(path); err == nil && len(rec.Operations) == 3 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("the rows are not in the file after 10 seconds")
}

// TestStartRefuses: bad options are errors.
func TestStartRefuses(t *testing.T) {
	for _, o := range []*Options{nil, {}, {Path: "x", Limit: 5}, {Path: "x", Limit: -1}, {Path: "/none/at/all"}} {
		if r, err := Start(o); err == nil {
			t.Errorf("Start(%+v) returns %v", o, r)
		}
	}
}

// TestReadRefuses: a file that is no recording, or one of another version, is refused with
// the position. A cut file gives what is there and says it.
func TestReadRefuses(t *testing.T) {
	head := string((&header{Schema: Schema}).line())
	row := `{"call":1,"name":"cuInit","driver":1,"start":0,"end":5,"track":0,"site":1}` + "\n"
	for _, c := range []struct{ text, want string }{
		{"", "line 1, byte 0: the file is empty"},
		{"\x7fELF\n", "line 1, byte 0: want"},
		{"{\n  \"schema\": \"ferry.compare/1\"\n}\n", "line 1, byte 0: want"},
		{strings.Replace(head, Schema, "ferry.trace/2", 1), `the schema is "ferry.trace/2", and this version reads "ferry.trace/1"`},
		{head + row + "{\"call\":oops}\n" + row, "line 3, byte 1099: malformed row"},
		{head + row + "{\"new\":1}\n", "line 3, byte 1099: malformed row"},
		{strings.Repeat("\x00", 3<<20), "line 1, byte 0: it is longer than 1048576 bytes"},
		{head + row + strings.Repeat("x", 3<<20), "line 3, byte 1099: it is longer than 1048576 bytes"},
	} {
		rec, err := Read(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: error %v, want %q", c.text, err, c.want)
		}
		if strings.HasPrefix(c.text, head+row) && (rec == nil || len(rec.Calls) != 1) {
			t.Errorf("%.60q: the rows before the error are lost", c.text)
		}
		if !strings.HasPrefix(c.text, head) && !errors.Is(err, ErrNotRecording) {
			t.Errorf("%.60q: %v does not wrap ErrNotRecording", c.text, err)
		}
	}
	if rec, err := ReadFile(t.TempDir()); rec != nil || err == nil || !strings.Contains(err.Error(), "line 1, byte 0") {
		t.Errorf("a folder: %+v, %v; want no recording and an error", rec, err)
	}
	for cut := 1; cut < len(row); cut++ {
		rec, err := Read(strings.NewReader(head + row + row[:cut]))
		if err != nil || len(rec.Calls) != 1 || !strings.Contains(rec.Cut, "line 3, byte 1099") {
			t.Fatalf("cut after %d bytes: %v, %+v", cut, err, rec)
		}
	}
}

// TestText: names of any bytes survive.
func TestText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.json")
	r, err := Start(&Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	want := "a \"kernel\"\n\\ \u00e9 \x01"
	r.addOp(1, &opRow{id: 1, name: want})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := ReadFile(path)
	if err != nil || len(rec.Operations) != 1 || rec.Operations[0].Name != want {
		t.Errorf("%v, %+v, want the name %q", err, rec, want)
	}
}

// TestRanges: the kind of an address is that of the range that contains it, and a new
// range replaces what it overlaps.
func TestRanges(t *testing.T) {
	var r ranges
	r.add(0x1000, 0x100, pageLocked)
	r.add(0x3000, 0x100, device)
	r.add(0x2000, 0x100, managed)
	for at, want := range map[uint64]string{0xfff: "?", 0x1000: pageLocked, 0x10ff: pageLocked, 0x1100: "?", 0x2050: managed, 0x3000: device, 0x3100: "?"} {
		if got := r.kind(at, "?"); got != want {
			t.Errorf("at %#x: %s, want %s", at, got, want)
		}
	}
	r.add(0x10f0, 0x2000, registered)
	r.remove(0x3000)
	for at, want := range map[uint64]string{0x1000: "?", 0x10f0: registered, 0x2050: registered, 0x30ef: registered, 0x30f0: "?"} {
		if got := r.kind(at, "?"); got != want {
			t.Errorf("after the replacement, at %#x: %s, want %s", at, got, want)
		}
	}
}
