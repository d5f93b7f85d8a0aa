package main

import (
	"strings"
	"testing"
)

// TestTraceCalls: a method passes on its call, with the hooks that there are around it.
func TestTraceCalls(t *testing.T) {
	m := &method{group: "Memory", name: "MemAlloc", symbol: "cuMemAlloc",
		params: []field{{"ctx", "Context"}, {"bytes", "uintptr"}}, results: []field{{"", "DevicePtr"}}}
	text, err := traceWrapper.calls([]*method{m}, map[string]bool{"beforeMemAlloc": true, "afterMemAlloc": true, "doneMemAlloc": true, "helper": true})
	if err != nil {
		t.Fatal(err)
	}
	want := `func (d *Driver) MemAlloc(ctx cu.Context, bytes uintptr) (cu.DevicePtr, error) {
	c := d.begin("cuMemAlloc", ctx, noStream, bytes)
	defer c.panicked()
	c.beforeMemAlloc(ctx, bytes)
	r0, err := d.inner.MemAlloc(ctx, bytes)
	if err == nil {
		c.afterMemAlloc(ctx, bytes, r0)
	}
	c.doneMemAlloc(ctx, bytes, r0, err)
	return r0, c.end(err)
}
`
	if !strings.HasSuffix(string(text), want) {
		t.Errorf("got\n%s\nwant at the end\n%s", text, want)
	}
}

// TestFaultCalls: a call of package fault is made by a function, which need not run. A method that
// is written by hand is not generated, but its function has a name.
func TestFaultCalls(t *testing.T) {
	methods := []*method{
		{group: "Memory", name: "MemAllocPitch", symbol: "cuMemAllocPitch", params: []field{{"ctx", "Context"}, {"bytes", "uintptr"}},
			results: []field{{"", "DevicePtr"}, {"pitch", "uintptr"}}},
		{group: "Memory", name: "MemFree", symbol: "cuMemFree", params: []field{{"ctx", "Context"}, {"p", "DevicePtr"}}},
		{group: "Streams", name: "LaunchHostFunc", symbol: "cuLaunchHostFunc"},
	}
	text, err := faultWrapper.calls(methods, map[string]bool{"beforeMemAllocPitch": true, "afterMemAllocPitch": true, "LaunchHostFunc": true})
	if err != nil {
		t.Fatal(err)
	}
	want := `
// MemAllocPitch makes cuMemAllocPitch, which can fail; see [cu.Memory].
func (d *Driver) MemAllocPitch(ctx cu.Context, bytes uintptr) (r0 cu.DevicePtr, pitch uintptr, err error) {
	c := d.begin("cuMemAllocPitch", ctx)
	c.beforeMemAllocPitch(ctx, bytes)
	c.make(func() { r0, pitch, err = d.inner.MemAllocPitch(ctx, bytes) })
	if c.made && err == nil {
		c.afterMemAllocPitch(ctx, bytes, r0, pitch)
	}
	return end2(&c, r0, pitch, err)
}

// MemFree makes cuMemFree, which can fail; see [cu.Memory].
func (d *Driver) MemFree(ctx cu.Context, p cu.DevicePtr) (err error) {
	c := d.begin("cuMemFree", ctx)
	c.make(func() { err = d.inner.MemFree(ctx, p) })
	return c.end(err)
}

// calls has the names of the C functions.
const calls = ` + "`cuLaunchHostFunc cuMemAllocPitch cuMemFree`\n"
	if !strings.HasSuffix(string(text), want) {
		t.Errorf("got\n%s\nwant at the end\n%s", text, want)
	}
}

// TestHookWithoutMethod: a hook whose name is no method, such as one with a spelling
// error, is an error.
func TestHookWithoutMethod(t *testing.T) {
	m := &method{group: "Memory", name: "MemAlloc", symbol: "cuMemAlloc"}
	for _, w := range []wrapper{traceWrapper, checkWrapper, faultWrapper} {
		if _, err := w.calls([]*method{m}, map[string]bool{"afterMemAloc": true}); err == nil || !strings.Contains(err.Error(), w.dir+" has a hook afterMemAloc") {
			t.Errorf("%s: error %v, want one that names afterMemAloc", w.dir, err)
		}
	}
}
