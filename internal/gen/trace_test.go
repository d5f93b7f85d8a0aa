package main

import (
	"strings"
	"testing"
)

// TestTraceCalls: a method passes on its call, with the hooks that there are around it.
func TestTraceCalls(t *testing.T) {
	m := &method{group: "Memory", name: "MemAlloc", symbol: "cuMemAlloc",
		params: []field{{"ctx", "Context"}, {"bytes", "uintptr"}}, results: []field{{"", "DevicePtr"}}}
	text, err := traceCalls([]*method{m}, map[string]bool{"beforeMemAlloc": true, "afterMemAlloc": true, "doneMemAlloc": true, "helper": true})
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

// TestHookWithoutMethod: a hook whose name is no method, such as one with a spelling
// error, is an error.
func TestHookWithoutMethod(t *testing.T) {
	m := &method{group: "Memory", name: "MemAlloc", symbol: "cuMemAlloc"}
	if _, err := traceCalls([]*method{m}, map[string]bool{"afterMemAloc": true}); err == nil || !strings.Contains(err.Error(), "afterMemAloc") {
		t.Errorf("error %v, want one that names afterMemAloc", err)
	}
}
