package ferry_test

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/kernels"
)

// TestLeakReport: what is lost without Close is reported with the place that made
// it, and not freed; what is closed is not.
func TestLeakReport(t *testing.T) {
	g := openFake(t, newFake())
	var mu sync.Mutex
	var reports []string
	ferry.OnLeak(func(text string) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, text)
	})
	defer ferry.OnLeak(nil)
	for range 3 {
		closeAll(t, must(ferry.Alloc[int32](g, 5))(t), must(ferry.NewStream(g, nil))(t), must(ferry.NewEvent(g, nil))(t))
	}
	loseThings(t, g)
	want := []string{"device buffer", "page-locked buffer", "stream", "event", "module"}
	for end := time.Now().Add(late); ; time.Sleep(time.Millisecond) {
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
	time.Sleep(soon)
	mu.Lock()
	defer mu.Unlock()
	if len(reports) != len(want) {
		t.Errorf("%d reports, want %d: %q", len(reports), len(want), reports)
	}
	all := strings.Join(reports, "\n")
	for _, w := range want {
		if !strings.Contains(all, w) {
			t.Errorf("no %s in %s", w, all)
		}
	}
	for _, r := range reports {
		if !strings.HasPrefix(r, "leaked: ") || !strings.Contains(r, "loseThings") || !strings.Contains(r, "leak_test.go:") {
			t.Errorf("the place is missing: %s", r)
		}
	}
}

//go:noinline
func loseThings(t *testing.T, g *ferry.GPU) {
	must(ferry.Alloc[int32](g, 1000))(t)
	must(ferry.AllocHost[int32](g, 1000, nil))(t)
	must(ferry.NewStream(g, nil))(t)
	must(ferry.NewEvent(g, nil))(t)
	must(ferry.Load(g, []byte(kernels.PTX)))(t)
}

// TestLostRegistration: registered Go memory stays where it is when the buffer is
// lost, as the driver goes on using it.
func TestLostRegistration(t *testing.T) {
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
