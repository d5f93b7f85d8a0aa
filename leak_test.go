package ferry_test

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// TestLeakReport: things that become garbage without Close are reported, with the place that
// made them. Closed things are not.
func TestLeakReport(t *testing.T) {
	d := newFake()
	d.Attributes[cu.DeviceAttributeMemoryPoolsSupported] = 1
	g := openDriver(t, d)
	var mu sync.Mutex
	var reports []string
	ferry.OnLeak(func(text string) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, text)
	})
	defer ferry.OnLeak(nil)
	for range 3 {
		closeAll(t, must(ferry.Alloc[int32](g, 5))(t), must(ferry.NewStream(g, nil))(t), must(ferry.NewEvent(g, nil))(t),
			must(ferry.NewPinnedPool(g, nil))(t), must(ferry.NewMemPool(g, nil))(t), must(ferry.OpenDriver(newFake(), 0))(t))
		must(ferry.DefaultMemPool(g))(t) // needs no Close
	}
	leakThings(t, g)
	want := []string{"device buffer", "page-locked buffer", "leaked: stream", "event", "module", "leaked: graph 1 on cuda:0",
		"a pool of page-locked memory of cuda:0", "a memory pool of cuda:0", "cuda:0 (fake)"}
	for end := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		mu.Lock()
		got := slices.Clone(reports)
		mu.Unlock()
		if len(got) >= len(want) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d reports, want %d: %q", len(got), len(want), got)
		}
	}
	time.Sleep(shortWait)
	mu.Lock()
	defer mu.Unlock()
	if len(reports) != len(want) {
		t.Errorf("%d reports, want %d: %q", len(reports), len(want), reports)
	}
	all := strings.Join(reports, "\n")
	for _, w := range want {
		if !strings.Contains(all, w) {
			t.Errorf("no report of a %s in %s", w, all)
		}
	}
	for _, r := range reports {
		if !strings.HasPrefix(r, "leaked: ") || !strings.Contains(r, "leakThings") || !strings.Contains(r, "leak_test.go:") {
			t.Errorf("the report does not say what made it: %s", r)
		}
	}
}

//go:noinline
func leakThings(t *testing.T, g *ferry.GPU) {
	must(ferry.Alloc[int32](g, 1000))(t)
	must(ferry.AllocHost[int32](g, 1000, nil))(t)
	must(ferry.NewStream(g, nil))(t)
	must(ferry.NewEvent(g, nil))(t)
	must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	must(ferry.DefaultStream(g).Capture(func(*ferry.Stream) error { return nil }))(t)
	must(ferry.NewPinnedPool(g, nil))(t)
	must(ferry.NewMemPool(g, nil))(t)
	must(ferry.OpenDriver(newFake(), 0))(t)
}

// TestLeakedRegistration: registered Go memory is not collected when the buffer becomes
// garbage, because the driver still uses it.
func TestLeakedRegistration(t *testing.T) {
	g := openSoft(t, "h200", 0)
	collected := make(chan struct{})
	func() {
		memory := new([1 << 16]byte)
		runtime.AddCleanup(memory, func(c chan struct{}) { close(c) }, collected)
		must(ferry.Register(g, memory[:], nil))(t)
	}()
	for range 5 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	select {
	case <-collected:
		t.Error("registered memory was collected")
	default:
	}
}
