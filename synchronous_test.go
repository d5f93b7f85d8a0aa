package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// TestSynchronous holds what Synchronous says of each pair of memory kinds against
// what Copy does. One that is not returns while the stream is held back; after one
// that is, a plain source is free and a plain destination is written.
func TestSynchronous(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	for _, k := range kindsOf(g) {
		m := must(k.make(g, 4096))(t)
		if k.name == "plain" {
			continue
		}
		stillShut := gateFor(t, s)
		if err := ferry.Fill(s, m.Memory, 7); err != nil && !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("%s: %v", k.name, err)
		}
		if !stillShut() {
			t.Errorf("%s: Fill waited", k.name)
		}
		check(t, m.close())
	}
	for _, to := range kindsOf(g) {
		for _, from := range kindsOf(g) {
			name := from.name + " to " + to.name
			dst, src := must(to.make(g, 4096))(t), must(from.make(g, 4096))(t)
			want := make([]byte, 4096)
			random(want)
			check(t, ferry.Copy(s, src.Memory, ferry.Memory[byte](ferry.Pageable(want))))
			check(t, s.Wait(context.Background()))
			if ferry.Synchronous(s, dst.Memory, src.Memory) {
				check(t, ferry.Copy(s, dst.Memory, src.Memory))
				if p, ok := src.Memory.(*ferry.PageableSlice[byte]); ok {
					clear(p.Slice())
				}
				if p, ok := dst.Memory.(*ferry.PageableSlice[byte]); ok && !bytes.Equal(p.Slice(), want) {
					t.Errorf("%s: Copy has returned and the bytes are not there", name)
				}
			} else {
				stillShut := gateFor(t, s)
				check(t, ferry.Copy(s, dst.Memory, src.Memory))
				if !stillShut() {
					t.Errorf("%s: Copy waited, Synchronous says that it does not", name)
				}
			}
			got := make([]byte, 4096)
			check(t, ferry.Copy(s, ferry.Memory[byte](ferry.Pageable(got)), dst.Memory))
			if !bytes.Equal(got, want) {
				t.Errorf("%s: the bytes differ", name)
			}
			check(t, errors.Join(dst.close(), src.close()))
		}
	}
	device := must(ferry.Alloc[byte](g, 8))(t)
	host := must(ferry.AllocHost[byte](g, 8, nil))(t)
	if !ferry.Synchronous(s, device, ferry.Pageable(make([]byte, 8))) {
		t.Error("a plain source is not synchronous")
	}
	if ferry.Synchronous(s, device, ferry.Pageable(host.Slice())) {
		t.Error("a plain slice of a page-locked buffer is synchronous")
	}
	if ferry.Synchronous(nil, device, ferry.Pageable(make([]byte, 8))) || ferry.Synchronous(s, device, nil) || ferry.Synchronous(s, device, ferry.Pageable(make([]byte, 7))) {
		t.Error("what cannot be copied is synchronous")
	}
	closeAll(t, device, host, s)
}

// gateFor holds a stream back until the function is called, which then says true,
// or for a second.
func gateFor(t *testing.T, s *ferry.Stream) (stillShut func() bool) {
	t.Helper()
	c := make(chan struct{})
	watch := time.AfterFunc(time.Second, func() { close(c) })
	check(t, s.HostFunc(func() { <-c }))
	return func() bool {
		if !watch.Stop() {
			return false
		}
		close(c)
		return true
	}
}

// TestNotify: the channel is closed when the stream is there, not before, and its
// receiver may use the driver while the stream goes on.
func TestNotify(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
	open := gate(t, s)
	check(t, ferry.Fill(s, device, byte(6)))
	check(t, ferry.Copy(s, host, device))
	there := must(s.Notify())(t)
	hold := gate(t, s) // after it: the receiver must not need the stream's end
	waits(t, "a receive", open, func() {
		<-there
		if got := ferry.Fill(ferry.DefaultStream(g), device.Range(0, 0), 0); got != nil {
			t.Error(got)
		}
	})
	hold()
	if host.Slice()[63] != 6 {
		t.Error("the bytes differ")
	}
	closeAll(t, host, device, s)
	_, err := s.Notify()
	wantError(t, err, ferry.ErrClosed)
	_, err = (*ferry.Stream)(nil).Notify()
	wantError(t, err, cu.ErrorInvalidValue, "no stream")
}
