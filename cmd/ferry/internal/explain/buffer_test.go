package explain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/trace"
)

// buffers uses one buffer well and one badly, and frees the second.
func buffers(p *program) {
	h, good, s := p.host(chunk), p.device(chunk), p.stream()
	bad := p.device(chunk)
	p.ok(ferry.Fill(s, good, 7))
	p.ok(ferry.Copy(s, good, h))
	p.ok(ferry.Copy(s, h, good))
	p.wait(s)
	p.ok(p.g.Driver().MemcpyHtoD(p.g.CUContext(), bad.Pointer()+64, pointerTo(make([]byte, 2*chunk)), 2*chunk))
	p.ok(bad.Close())
}

// addressOfCopy returns where the first call of a name writes.
func addressOfCopy(t *testing.T, rec *trace.Recording, name string) uint64 {
	t.Helper()
	for i := range rec.Calls {
		if rec.Calls[i].Name == name {
			return rec.Calls[i].Address
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

// TestBuffer: a buffer has its allocation, what touched it and its end, and only its own
// findings.
func TestBuffer(t *testing.T) {
	rec := record(t, machine(t, "h200", nil), buffers)
	rec.PID = 7
	good := addressOfCopy(t, rec, "cuMemcpyHtoDAsync")
	bad := addressOfCopy(t, rec, "cuMemcpyHtoD")
	for _, c := range []struct {
		at       uint64
		golden   string
		findings int
	}{{good + 4*chunk - 1, "buffer-good.txt", 0}, {bad, "buffer-bad.txt", 1}} {
		r, err := Buffer("t.json", rec, c.at)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, c.golden, normalized(r.Page().Text(100)))
		checkSteps(t, r)
		if len(r.Findings) != c.findings {
			t.Errorf("%#x: %+v", c.at, r.Findings)
		}
	}
	if _, err := Buffer("t.json", rec, 1<<60); err == nil || !strings.Contains(err.Error(), "no buffer had this address; the nearest is 0x") {
		t.Errorf("got %v", err)
	}
	for i := range rec.Calls {
		rec.Calls[i].Address = 0
	}
	if _, err := Buffer("t.json", rec, good); err == nil || !strings.Contains(err.Error(), "older versions") {
		t.Errorf("a recording without addresses: got %v", err)
	}
}

// TestBufferAgain: an address that was freed and allocated again had two buffers, and each
// has what was done in its time.
func TestBufferAgain(t *testing.T) {
	call := func(id uint64, name string, start int64, address, bytes uint64) trace.Call {
		return trace.Call{ID: id, Name: name, Start: start, End: start + 5, Address: address, Bytes: bytes}
	}
	rec := &trace.Recording{Calls: []trace.Call{
		call(1, "cuMemAlloc", 0, 0x1000, 0x100), call(2, "cuMemcpyHtoD", 10, 0x1000, 0x100), call(3, "cuMemFree", 20, 0x1000, 0),
		call(4, "cuMemAlloc", 30, 0x1000, 0x80), call(5, "cuMemsetD8", 40, 0x1010, 0x10), call(6, "cuMemcpyDtoH", 50, 0x9000, 0x10),
	}}
	rec.Calls[5].Source = 0x1070
	r, err := Buffer("x", rec, 0x1040)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Steps {
		got = append(got, s.Place+" "+s.Address)
	}
	want := "allocation 0x1000, copied to 0x1000, free 0x1000, allocation 0x1000, filled 0x1010, copied from 0x1070"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}

// TestSplitAddress: the name of a file wins, and what is no number is said.
func TestSplitAddress(t *testing.T) {
	dir := t.TempDir()
	file, odd := filepath.Join(dir, "t.json"), filepath.Join(dir, "t.json:16")
	for _, name := range []string{file, odd} {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		word, file string
		address    uint64
		has        bool
		wrong      string
	}{
		{file, file, 0, false, ""},
		{odd, odd, 0, false, ""},
		{file + ":0x10", file, 16, true, ""},
		{file + ":17", file, 17, true, ""},
		{file + ":main", "", 0, false, `"main" is no address`},
		{"absent.json", "absent.json", 0, false, ""},
		{`C:\t.json`, `C:\t.json`, 0, false, ""},
	} {
		name, at, has, err := SplitAddress(c.word)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: got %v", c.word, err)
			}
		} else if name != c.file || at != c.address || has != c.has || err != nil {
			t.Errorf("%s: got %q, %d, %v, %v", c.word, name, at, has, err)
		}
	}
}

// TestPageLocked: memory of AllocHost is page-locked in the report on an address, whichever driver
// call locked it, and memory of Register is registered.
func TestPageLocked(t *testing.T) {
	var at [3]uint64
	rec := record(t, machine(t, "h200", nil), func(p *program) {
		small, large := p.host(1024), p.host(chunk)
		memory := make([]uint32, chunk)
		h, err := ferry.Register(p.g, memory, nil)
		must(p, h, err)
		for i, s := range [][]uint32{small.Slice(), large.Slice(), memory} {
			at[i] = addressOf(s)
		}
	})
	for i, want := range []string{"4.00KiB of page-locked memory", "4.00MiB of page-locked memory", "4.00MiB of registered memory"} {
		r, err := Buffer("t.json", rec, at[i])
		if err != nil {
			t.Fatal(err)
		}
		if text := r.Page().Text(100); !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q", text, want)
		}
	}
}
