package leak

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// object is what the tests watch. A pointer in it keeps it out of the allocator's blocks of tiny
// objects, which live as long as any object in the block.
type object struct{ _ *int }

// make1 makes an object and watches it. It is a function of its own, so that no stack keeps the object.
//
//go:noinline
func make1(what string) runtime.Cleanup {
	return Watch(&object{}, func() string { return what })
}

// collect collects garbage until a report comes, or the time has passed.
func collect(reports <-chan string, most time.Duration) (string, bool) {
	for end := time.Now().Add(most); time.Now().Before(end); {
		runtime.GC()
		select {
		case text := <-reports:
			return text, true
		case <-time.After(time.Millisecond):
		}
	}
	return "", false
}

// TestWatch: an object that is lost is reported with what it is, and with the line that made it. One
// whose cleanup was stopped is not.
func TestWatch(t *testing.T) {
	reports := make(chan string, 8)
	SetReporter(func(text string) { reports <- text })
	defer SetReporter(nil)
	if !Watching() {
		t.Fatal("nothing is watched")
	}
	make1("a buffer that was closed").Stop()
	make1("the lost buffer")
	text, ok := collect(reports, 30*time.Second)
	if !ok || !strings.HasPrefix(text, "leaked: the lost buffer was not closed; made by\n\t") {
		t.Fatalf("got %q, want a report of the lost buffer", text)
	}
	for range 3 {
		runtime.GC()
	}
	if text, ok := collect(reports, 20*time.Millisecond); ok {
		t.Errorf("a second report: %q", text)
	}
}

// TestWatchOff: without a reporter what is watched is not described, and what was watched before is
// not reported.
func TestWatchOff(t *testing.T) {
	reports := make(chan string, 8)
	SetReporter(func(text string) { reports <- text })
	make1("an object from before")
	SetReporter(nil)
	if Watching() {
		t.Error("it still watches")
	}
	Watch(&object{}, func() string { t.Error("described"); return "" }).Stop() // Stop of no cleanup
	if text, ok := collect(reports, 20*time.Millisecond); ok {
		t.Errorf("reported: %q", text)
	}
}

// TestReportBlocks: a report runs on a goroutine of its own, so one that never ends delays no other.
func TestReportBlocks(t *testing.T) {
	reports, never := make(chan string, 8), make(chan struct{})
	defer close(never)
	SetReporter(func(text string) { reports <- text; <-never })
	defer SetReporter(nil)
	for _, what := range []string{"first", "second"} {
		make1(what)
		if text, ok := collect(reports, 30*time.Second); !ok || !strings.Contains(text, what) {
			t.Fatalf("got %q, want a report of the %s", text, what)
		}
	}
}
