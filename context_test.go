package ferry_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestNilContext: every function and method that takes a context takes nil as one that never
// ends. Those that wait return when their work is done, not before.
func TestNilContext(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 1000, nil))(t), must(ferry.Alloc[byte](g, 1000))(t)
	managed := must(ferry.AllocManaged[byte](g, 1000, nil))(t)
	pool := must(ferry.NewPinnedPool(g, nil))(t)
	defer closeAll(t, host, device, managed, pool, e, s)
	want, got := make([]byte, 1000), make([]byte, 1000)
	wantSlice := func(slice []byte, err error) error {
		if !bytes.Equal(slice, want) {
			t.Errorf("the slice has other bytes than were copied")
		}
		return err
	}
	var none context.Context // nil
	waitsFor := map[string]func() error{
		"GPU.Wait":                 func() error { return g.Wait(none) },
		"Stream.Wait":              func() error { return s.Wait(none) },
		"Event.Wait":               func() error { return e.Wait(none) },
		"Device.Wait":              func() error { return device.Wait(none) },
		"Host.Wait":                func() error { return host.Wait(none) },
		"Managed.Wait":             func() error { return managed.Wait(none) },
		"Host.SliceContext":        func() error { return wantSlice(host.SliceContext(none)) },
		"Host.ReadSliceContext":    func() error { return wantSlice(host.ReadSliceContext(none)) },
		"Managed.SliceContext":     func() error { return wantSlice(managed.SliceContext(none)) },
		"Managed.ReadSliceContext": func() error { return wantSlice(managed.ReadSliceContext(none)) },
		"CopyContext":              func() error { return ferry.CopyContext[byte](none, s, ferry.Pageable(got), host) },
		"CopyFrom":                 func() error { return last(ferry.CopyFrom[byte](none, s, host, bytes.NewReader(want))) },
		"CopyTo":                   func() error { return last(ferry.CopyTo[byte](none, s, bytes.NewBuffer(got[:0]), device)) },
	}
	returns := map[string]func() error{
		"AllocHostContext": func() error {
			h, err := ferry.AllocHostContext[byte](none, g, 1<<20, nil)
			if err == nil {
				err = h.Close()
			}
			return err
		},
		"PinnedPool.Warm": func() error { return pool.Warm(none, 4096) },
	}
	all := map[string]bool{}
	for name, wait := range waitsFor {
		all[name] = true
		fillRandom(want)
		check(t, ferry.Copy(s, device, ferry.Pageable(want)))
		open := gate(t, s)
		check(t, ferry.Copy(s, host, device))
		check(t, ferry.Copy(s, managed, device))
		check(t, ferry.Copy(s, device.Range(0, 500), host.Range(0, 500)))
		check(t, s.Record(e))
		waits(t, name, open, func() {
			if err := wait(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		check(t, s.Wait(context.Background()))
		if (name == "CopyContext" || name == "CopyTo") && !bytes.Equal(got, want) {
			t.Errorf("%s: the bytes differ", name)
		}
	}
	for name, f := range returns {
		all[name] = true
		if err := f(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var names []string
	for name, d := range declared(t) {
		if d.context {
			names = append(names, name)
		}
	}
	wantAll(t, "contexts", all, names)
}

// TestEndedContext: with a context that has ended every function and method that would wait
// returns the error of the context. The work goes on.
func TestEndedContext(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 1000, nil))(t), must(ferry.Alloc[byte](g, 1000))(t)
	managed := must(ferry.AllocManaged[byte](g, 1000, nil))(t)
	pool := must(ferry.NewPinnedPool(g, nil))(t)
	defer closeAll(t, host, device, managed, pool, e, s)
	want, got := make([]byte, 1000), make([]byte, 1000)
	fillRandom(want)
	check(t, ferry.Copy(s, device, ferry.Pageable(want)))
	open := gate(t, s)
	check(t, ferry.Copy(s, host, device))
	check(t, ferry.Copy(s, managed, host))
	check(t, s.Record(e))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	var refused []refusedCall
	for _, f := range []func(context.Context) error{
		g.Wait, s.Wait, e.Wait, device.Wait, host.Wait, managed.Wait,
		func(ctx context.Context) error { return last(host.SliceContext(ctx)) },
		func(ctx context.Context) error { return last(host.ReadSliceContext(ctx)) },
		func(ctx context.Context) error { return last(managed.SliceContext(ctx)) },
		func(ctx context.Context) error { return last(managed.ReadSliceContext(ctx)) },
		func(ctx context.Context) error { return ferry.CopyContext[byte](ctx, s, ferry.Pageable(got), device) },
		func(ctx context.Context) error { return ferry.CopyContext[byte](ctx, s, device, managed) },
		func(ctx context.Context) error { return last(ferry.CopyFrom[byte](ctx, s, host, bytes.NewReader(got))) },
		func(ctx context.Context) error {
			return last(ferry.CopyTo[byte](ctx, s, bytes.NewBuffer(got[:0]), host))
		},
		func(ctx context.Context) error { return last(ferry.AllocHostContext[byte](ctx, g, 1<<20, nil)) },
		func(ctx context.Context) error { return pool.Warm(ctx, 4096) },
	} {
		refused = append(refused, refusedCall{func() error { return f(ended) }, "", context.Canceled})
	}
	wantRefused(t, "ended context", refused)
	open()
	wantBytes(t, managed.Slice(), want)
	wantBytes(t, host.Slice(), want)
	wantBytes(t, must(ferry.Download(device))(t), want)
	wantBytes(t, got, make([]byte, 1000))
}
