package api

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// TestOpenAfterFault: after the fault of a kernel a software GPU can be opened again, before and after
// Close of the lost one, and works. The lost one stays lost.
func TestOpenAfterFault(t *testing.T) {
	lost := must(ferry.Open("soft"))(t)
	s := must(ferry.NewStream(lost, nil))(t)
	x := must(ferry.Alloc[float32](lost, 100))(t)
	increment := must(must(ferry.Load(lost, []byte(kernels.PTX), nil))(t).Kernel("increment"))(t)
	check(t, s.Launch(increment, ferry.Cover(64, 32), x, uint64(1<<20))) // far behind the end of x
	if err := s.Wait(context.Background()); !errors.Is(err, cu.ErrorIllegalAddress) {
		t.Fatalf("Wait after a fault: %v", err)
	}
	beside := incrementOnNew(t)
	if err := ferry.Fill(s, x, 1); !errors.Is(err, cu.ErrorIllegalAddress) {
		t.Errorf("Fill on the lost GPU, beside another: %v", err)
	}
	_ = lost.Close() // it reports the fault, or nothing
	incrementOnNew(t)
	check(t, beside.Close())
}

// incrementOnNew opens a software GPU and lets a kernel run there.
func incrementOnNew(t *testing.T) *ferry.GPU {
	t.Helper()
	g := must(ferry.Open("soft"))(t)
	t.Cleanup(func() { _ = g.Close() })
	s := must(ferry.NewStream(g, nil))(t)
	k := must(must(ferry.Load(g, []byte(kernels.PTX), nil))(t).Kernel("increment"))(t)
	want := make([]float32, 1000)
	for i := range want {
		want[i] = float32(rand.IntN(1 << 20))
	}
	x := must(ferry.Upload(g, want))(t)
	check(t, s.Launch(k, ferry.Cover(1000, 128), x, uint64(1000)))
	check(t, s.Wait(context.Background()))
	got := must(ferry.Download(x))(t)
	for i := range want {
		if got[i] != want[i]+1 {
			t.Fatalf("element %d is %v, want %v", i, got[i], want[i]+1)
		}
	}
	return g
}

// TestLeaksVariable: FERRY_LEAKS=1 reports what is lost on standard error, and no other value does.
func TestLeaksVariable(t *testing.T) {
	if inHelper(t) {
		reportLost(t)
		return
	}
	for _, value := range []string{"1", "", "0", "true", "11"} {
		out, err := helper(t, ferry.LeaksVariable+"="+value).CombinedOutput()
		check(t, err)
		got := strings.Contains(string(out), "leaked: device buffer")
		if !strings.Contains(string(out), "what was lost is collected") || got != (value == "1") {
			t.Errorf("%s=%q: a report: %t\n%s", ferry.LeaksVariable, value, got, out)
		}
	}
}

// reportLost loses a buffer, and waits until the garbage collector has found it and, if reports are
// on, until the report is on standard error.
func reportLost(t *testing.T) {
	g := must(ferry.Open("soft"))(t)
	defer g.Close() // it is not lost
	read, write, err := os.Pipe()
	check(t, err)
	os.Stderr = write
	reported, collected := make(chan string, 1), make(chan struct{})
	go func() {
		text := make([]byte, 4096)
		n, _ := read.Read(text)
		reported <- string(text[:n])
	}()
	func() {
		x := must(ferry.Alloc[byte](g, 4096))(t)
		runtime.AddCleanup(x, func(int) { close(collected) }, 0)
	}()
	eventually(t, "the collection of a lost buffer", func() bool {
		runtime.GC()
		select {
		case <-collected:
			return true
		default:
			return false
		}
	})
	t.Log("what was lost is collected")
	if os.Getenv(ferry.LeaksVariable) == "1" {
		t.Log(<-reported)
		return
	}
	for range 3 {
		runtime.GC()
	}
	select {
	case text := <-reported:
		t.Log(text)
	case <-time.After(shortWait):
	}
}
