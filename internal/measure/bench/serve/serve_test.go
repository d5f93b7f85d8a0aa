package serve

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
)

func openSoft(t *testing.T) *ferry.GPU {
	t.Helper()
	g, err := ferry.Open("soft:h200")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// TestRun serves cells of each kind and variant, and checks that the figures agree with each
// other.
func TestRun(t *testing.T) {
	g := openSoft(t)
	for _, text := range []string{"pinned,4096,3", "pageable,65536,2", "pool,4096,5", "pinned,16,1,context", "pinned,4096,2,gc", "pool,64,2,gc,context", "pinned,4096,2,save"} {
		c, err := ParseCell(text)
		if err != nil {
			t.Fatal(err)
		}
		f, seconds := served(t, g, c)
		ordered := []float64{0, f.P50, f.P99, f.P999, f.Longest}
		n := uint64(c.Goroutines)
		switch {
		case f.Cell != text || f.Program != "ferry" || f.Seconds != seconds || f.Device != "NVIDIA H200" || f.Go == "":
			t.Errorf("%s: described as %+v", text, f)
		case f.Requests == 0 || f.PerSecond != float64(f.Requests)/seconds || f.P50 == 0 || !slices.IsSorted(ordered):
			t.Errorf("%s: %+v", text, f)
		case f.Fewest*n > f.Requests || f.Most*n < f.Requests || c.Goroutines == 1 && f.Fewest != f.Most:
			t.Errorf("%s: %d to %d requests of a goroutine, %d together", text, f.Fewest, f.Most, f.Requests)
		case c.GC && f.GCs == 0:
			t.Errorf("%s: no garbage was collected", text)
		}
	}
	for _, wrong := range []Cell{{Kind: "no", Bytes: 16, Goroutines: 1}, {Kind: "pool", Bytes: 17, Goroutines: 1}, {Kind: "pool", Bytes: 16}} {
		if _, err := Run(g, wrong, time.Millisecond); err == nil {
			t.Errorf("%v was served", wrong)
		}
	}
	if _, err := Run(g, Cells()[0], 0); err == nil || !strings.Contains(err.Error(), "must be positive") {
		t.Errorf("without time: %v", err)
	}
}

// served serves a cell for 30 ms, and longer while no request ends or no garbage is collected: on a machine
// with much other work either can take as long.
func served(t *testing.T, g *ferry.GPU, c Cell) (f *Figures, seconds float64) {
	t.Helper()
	for d := 30 * time.Millisecond; ; d *= 4 {
		f, err := Run(g, c, d)
		if err != nil {
			t.Fatal(err)
		}
		if f.Requests > 0 && (!c.GC || f.GCs > 0) || d > 5*time.Second {
			return f, d.Seconds()
		}
	}
}

// TestWrongData checks that wrong elements are found: at the ends by each request, and in the
// middle at the end.
func TestWrongData(t *testing.T) {
	g := openSoft(t)
	for _, kind := range kinds {
		var undo closers
		c := Cell{Kind: kind, Bytes: 4096, Goroutines: 1}
		workers, err := newWorkers(g, c, &undo)
		if err != nil {
			t.Fatal(err)
		}
		w := workers[0]
		if err := w.request(); err != nil {
			t.Fatal(err)
		}
		if err := w.verify(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		w.args[1] = uint64(4)
		if err := w.request(); err == nil || !strings.Contains(err.Error(), "wrong data: request") {
			t.Errorf("%s: a kernel for 4 elements: %v", kind, err)
		}
		if kind == "pool" { // the failed request still has its buffers
			if err := w.giveBack(); err != nil {
				t.Error(err)
			}
		}
		if err := w.verify(); err == nil || !strings.Contains(err.Error(), "wrong data: element") {
			t.Errorf("%s: verified a kernel for 4 elements: %v", kind, err)
		}
		if err := undo.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLastRequest checks that a wrong element in the middle of the last request is found, even
// if a later request is right.
func TestLastRequest(t *testing.T) {
	g := openSoft(t)
	for _, kind := range []string{"pinned", "pageable"} {
		var undo closers
		workers, err := newWorkers(g, Cell{Kind: kind, Bytes: 4096, Goroutines: 1}, &undo)
		if err != nil {
			t.Fatal(err)
		}
		w := workers[0]
		if err := w.request(); err != nil {
			t.Fatal(err)
		}
		w.out[500]++
		if err := w.verify(); err == nil || !strings.Contains(err.Error(), "element 500 of 1024") {
			t.Errorf("%s: %v", kind, err)
		}
		if err := undo.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestParseCell checks valid and wrong cells.
func TestParseCell(t *testing.T) {
	for _, c := range append(Cells(), Cell{"pool", 16, 65536, true, true, true}) {
		if got, err := ParseCell(c.String()); err != nil || got != c {
			t.Errorf("%v: %+v, %v", c, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "KIND,BYTES,GOROUTINES", "pinned,4096": "KIND,BYTES,GOROUTINES", "big,16,1": "kind", "pinned,x,1": "x", "pinned,16,y": "y", "pinned,0,1": "0 bytes",
		"pinned,-16,1": "-16 bytes", "pinned,20,1": "multiple", "pinned,16,0": "0 goroutines", "pinned,16,1,fast": "fast", "pinned,16,65537": "65537", "pinned,1099511627776,1": "1099511627776",
	} {
		if c, err := ParseCell(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want an error with %q", text, c, err, want)
		}
	}
	peers := 0
	for _, c := range Cells() {
		if c.Peer() {
			peers++
		}
	}
	if len(Cells()) != 37 || peers != 25 {
		t.Errorf("%d cells, %d with a peer", len(Cells()), peers)
	}
}

// TestPointers checks the size of the heap of pointers: all its objects are reachable, and no
// more.
func TestPointers(t *testing.T) {
	seen := map[*node]bool{}
	var walk func(n *node)
	walk = func(n *node) {
		if n != nil && !seen[n] {
			seen[n] = true
			for _, next := range n {
				walk(next)
			}
		}
	}
	walk(pointers(1000 * nodeBytes))
	if len(seen) != 1000 {
		t.Errorf("%d objects can be reached, want 1000", len(seen))
	}
}
