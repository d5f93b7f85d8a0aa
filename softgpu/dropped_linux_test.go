package softgpu

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// virtualBytes returns the address space that the process uses.
func virtualBytes(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	var pages int
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// useAndDrop opens a driver, writes large and small device memory, and drops all of it.
func useAndDrop(t *testing.T) {
	t.Helper()
	d, err := Open(Options{})
	ok := func(e error) {
		if err == nil {
			err = e
		}
	}
	ok(d.Init(0))
	ctx, e := d.DevicePrimaryCtxRetain(0)
	ok(e)
	for _, bytes := range []uintptr{1 << 10, 256 << 20} {
		p, e := d.MemAlloc(ctx, bytes)
		ok(e)
		ok(d.MemsetD8Async(ctx, p, 1, 1<<10, 0))
		freed, e := d.MemAlloc(ctx, bytes)
		ok(e)
		ok(d.MemFree(ctx, freed))
	}
	ok(d.StreamSynchronize(ctx, 0))
	if err != nil {
		t.Fatal(err)
	}
}

// TestDroppedDriver: a driver that the program drops gives the memory of its device back.
func TestDroppedDriver(t *testing.T) {
	if raceBuild {
		t.Skip("race builds take device memory from the Go heap")
	}
	const drivers, each = 20, 256 << 20
	useAndDrop(t)
	before := virtualBytes(t)
	for range drivers {
		useAndDrop(t)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		runtime.GC()
		grown := virtualBytes(t) - before
		if grown < 2*each {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %d dropped drivers the process has %s more addresses", drivers, size(uint64(grown)))
		}
	}
}
