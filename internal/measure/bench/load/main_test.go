package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/ferrygpu/ferry"
)

// TestMain lets the tests start this binary as the program's servers.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--serve" {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestLlama: the sizes are those of Llama 3 8B, and the header's places are those of the data.
func TestLlama(t *testing.T) {
	m := llama(sizes{32, 4096}, rand.New(rand.NewPCG(1, 2)))
	vectors := 0
	for _, x := range m.tensors {
		if len(x.shape) == 1 {
			vectors++
		}
	}
	if m.bytes != 16060522496 || len(m.tensors) != 291 || vectors != 65 {
		t.Errorf("%d bytes, %d tensors, %d vectors", m.bytes, len(m.tensors), vectors)
	}
	header, err := m.header(rand.New(rand.NewPCG(3, 4)))
	if err != nil {
		t.Fatal(err)
	}
	var entries map[string]struct {
		Offsets [2]int64 `json:"data_offsets"`
	}
	if n := binary.LittleEndian.Uint64(header); n != uint64(len(header)-8) || n%8 != 0 {
		t.Errorf("the header says %d bytes, and has %d", n, len(header)-8)
	}
	if err := json.Unmarshal(header[8:], &entries); err != nil || len(entries) != 291 {
		t.Fatalf("%d entries, error %v", len(entries), err)
	}
	for _, x := range m.tensors {
		if got := entries[x.name].Offsets; got != [2]int64{x.off, x.off + x.bytes} {
			t.Errorf("%s: %v in the header, %d and %d bytes in the model", x.name, got, x.off, x.bytes)
		}
	}
}

// TestRandom: the bytes do not depend on how they are divided, and differ from seed to seed.
func TestRandom(t *testing.T) {
	whole, parts, other := make([]byte, 4096), make([]byte, 4096), make([]byte, 4096)
	random(whole, 7, 0)
	random(other, 8, 0)
	for off := 0; off < 4096; off += 512 {
		random(parts[off:off+512], 7, int64(off))
	}
	if !bytes.Equal(whole, parts) || bytes.Equal(whole, other) {
		t.Error("the bytes are not a sequence of the seed")
	}
}

// TestRun: a small run on two devices measures Ferry's rows, and the files are removed.
func TestRun(t *testing.T) {
	t.Setenv("FERRY_COMMIT", "0123abc")
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out.json")
	var text, failed bytes.Buffer
	args := []string{"--device", "soft:h200*2", "--dir", dir, "--disk", dir, "--layers", "1", "--width", "128", "--disk-layers", "1",
		"--small", "50", "--rounds", "2", "--json", out, "--samples", out + "l"}
	if status := run(args, nil, &text, &failed); status != 0 {
		t.Fatalf("status %d:\n%s", status, &failed)
	}
	var r report
	saved, err := os.ReadFile(out)
	if err == nil {
		err = json.Unmarshal(saved, &r)
	}
	if err != nil || len(r.Rows) != len(rows()) || r.Schema != schema || r.Commit != "0123abc" {
		t.Fatalf("%d rows, error %v:\n%s", len(r.Rows), err, saved)
	}
	for _, row := range r.Rows {
		for _, e := range row.Entrants {
			if e.Name == ferryFirst.name && (e.Figures[movedBytes] != 256 || math.Abs(e.Rate*float64(e.NS)/1e9-256) > 1) {
				t.Errorf("one vector has 256 bytes: %+v", e)
			}
			if own(e.Name) && (e.Samples != 2 || e.Rate <= 0 || e.Figures["pinned"] <= 0 || e.Error != "") {
				t.Errorf("%s: %s: %+v", row.Name, e.Name, e)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
	args = append(args, "--keep", "--only", "first", "--rounds", "1")
	if status := run(args, nil, &text, &failed); status != 0 {
		t.Errorf("status %d:\n%s", status, &failed)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 6 {
		t.Errorf("kept: %v, want three files and their lists, error %v", left, err)
	}
}

// own reports whether a name is that of an entrant that this program measures itself.
func own(name string) bool {
	for _, r := range rows() {
		for _, e := range r.entrants {
			if e.name == name && methods[e.method] != nil {
				return true
			}
		}
	}
	return false
}

// TestCheck: a byte that differs is found, anywhere if all are compared.
func TestCheck(t *testing.T) {
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	data := make([]byte, fillBlock+100)
	random(data, 1, 0)
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []int{-1, 0, fillBlock, len(data) - 1} {
		mine := bytes.Clone(data)
		if wrong >= 0 {
			mine[wrong] ^= 4
		}
		d, err := ferry.Upload(g, mine)
		if err != nil {
			t.Fatal(err)
		}
		r := request{whole: true, path: path, bytes: int64(len(data))}
		if err := check(r, []place{{mem: d}}); (err == nil) != (wrong < 0) {
			t.Errorf("byte %d differs: error %v", wrong, err)
		}
		r.whole = false
		if err := check(r, []place{{mem: d}}); wrong < 0 && err != nil {
			t.Errorf("equal bytes, in part: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestF16: some values of bf16 as f16, each with both signs.
func TestF16(t *testing.T) {
	for bf16, want := range map[uint16]uint16{
		0x3f80: 0x3c00, // 1
		0x3fff: 0x3ff8, // the largest below 2
		0x477f: 0x7bf8, // 65280, the largest that f16 has
		0x4780: 0x7c00, // 65536
		0x7f80: 0x7c00, // infinity
		0x7f81: 0x7fff, // NaN
		0x3880: 0x0400, // 2^-14, the least normal
		0x3300: 0x0000, // 2^-25: half of the least denormal, to even
		0x3301: 0x0001, // a little more
		0x33c0: 0x0002, // 1.5 times the least denormal, to even
		0x0000: 0x0000,
		0x0001: 0x0000, // a denormal of bf16
	} {
		for _, sign := range []uint16{0, 0x8000} {
			p := binary.LittleEndian.AppendUint16(nil, bf16|sign)
			toF16(p)
			if got := binary.LittleEndian.Uint16(p); got != want|sign {
				t.Errorf("%#04x: %#04x, want %#04x", bf16|sign, got, want|sign)
			}
		}
	}
}

// TestJudge: a ratio is that of the slowest other, and a goal of what was not measured is left out.
func TestJudge(t *testing.T) {
	r := rowReport{Entrants: []entrantReport{{Name: ferryRing.name, NS: 200}, {Name: locked.name, NS: 150}, {Name: ring.name, NS: 190}}}
	x, ok := r.judge(goal{entrant: ferryRing, against: []entrant{locked, ring}, atLeast: 0.95})
	if !ok || x.Ratio != 0.95 || !x.Met {
		t.Errorf("%+v, %t", x, ok)
	}
	if x, _ := r.judge(goal{entrant: ferryRing, against: []entrant{locked}, atLeast: 0.92}); x.Met {
		t.Errorf("0.75 is met: %+v", x)
	}
	r.Entrants[0].Figures = map[string]float64{"pinned": 65 << 20}
	for limit, met := range map[float64]bool{64 << 20: false, 65 << 20: true} {
		if x, ok := r.judge(goal{entrant: ferryRing, pinned: limit}); !ok || x.Met != met {
			t.Errorf("65 MiB, %v allowed: %+v, %t", limit, x, ok)
		}
	}
	if _, ok := r.judge(goal{entrant: ferryRing, against: []entrant{mmapped}, atLeast: 1}); ok {
		t.Error("a goal of an entrant that was not measured")
	}
}

// TestCommandLine: a wrong command line is refused with status 2.
func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{{}, {"word"}, {"--none"}, {"--dir", "/tmp", "--rounds", "0"}, {"--dir", "/tmp", "--width", "100"}, {"--dir", "/tmp", "--only", "no"}} {
		var out, failed bytes.Buffer
		if status := run(args, nil, &out, &failed); status != 2 || failed.Len() == 0 {
			t.Errorf("%q: status %d, %q", args, status, &failed)
		}
	}
}

// TestLines: requests and answers are read as they were written.
func TestLines(t *testing.T) {
	want := request{"ring", toAll, true, 80, 1 << 40, "/a folder/x.safetensors"}
	if got, err := parseRequest(want.String()); got != want || err != nil {
		t.Errorf("%+v, error %v", got, err)
	}
	a, err := parseAnswer("1500 pinned=67108864\n")
	if err != nil || a.time != 1500 || a.figures["pinned"] != 64<<20 {
		t.Errorf("%+v, error %v", a, err)
	}
	for _, line := range []string{"", "-1 no memory", "0", "x", "5 a=b"} {
		if a, err := parseAnswer(line); err == nil {
			t.Errorf("%q: %+v", line, a)
		}
	}
}
