package api

import (
	"bytes"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// wantPart checks the part and the byte of an error.
func wantPart(t *testing.T, what string, err error, part int, at int64) {
	t.Helper()
	e, ok := errors.AsType[*ferry.PartError](err)
	if !ok || e.Part != part || e.Byte != at {
		t.Errorf("%s: %v is %+v, want part %d and byte %d", what, err, e, part, at)
	}
}

// nameless is a source whose Name panics.
type nameless struct{ readAt }

func (nameless) Name() string { panic("no name") }

// TestCopyPartsNames: a source whose name cannot be had is an error and no panic.
func TestCopyPartsNames(t *testing.T) {
	sample.SkipRace(t)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	d := must(ferry.Alloc[byte](g, 100))(t)
	defer closeAll(t, d, s)
	failing := nameless{func([]byte, int64) (int, error) { return 0, os.ErrInvalid }}
	for _, src := range []io.ReaderAt{(*os.File)(nil), &os.File{}, failing} {
		_, err := ferry.CopyParts(t.Context(), s, []ferry.ReadPart{{Src: src, Dst: d, Off: -1}}, nil)
		wantError(t, err, cu.ErrorInvalidValue, "the offset in the source is -1")
	}
	for _, src := range []io.ReaderAt{(*os.File)(nil), failing} {
		_, err := ferry.CopyParts(t.Context(), s, []ferry.ReadPart{{Src: src, Dst: d}}, nil)
		wantError(t, err, os.ErrInvalid)
		wantPart(t, "a failed read", err, 0, 0)
	}
}

// failingHash fails after some bytes.
type failingHash struct {
	hash.Hash
	left int
}

func (h *failingHash) Write(p []byte) (int, error) {
	n := min(len(p), h.left)
	if h.left -= n; n < len(p) {
		return n, io.ErrClosedPipe
	}
	return n, nil
}

// TestCopyPartsHashFails: the error of a hash names its part and the byte. n of CopyPartsTo counts the
// bytes that the writer has up to there.
func TestCopyPartsHashFails(t *testing.T) {
	const count, size = 300, 20_000
	g := must(ferry.OpenDriver(&gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	device, host := must(ferry.Alloc[byte](g, count*size))(t), must(ferry.AllocHost[byte](g, count*size, nil))(t)
	defer closeAll(t, device, host, s, g)
	src := make([]byte, count*size)
	testHashFails(t, s, src, size, func(i int) ferry.Memory[byte] { return device.Range(i*size, (i+1)*size) })
	testHashFails(t, s, src, size, func(i int) ferry.Memory[byte] { return host.Range(i*size, (i+1)*size) })
}

func testHashFails(t *testing.T, s *ferry.Stream, src []byte, size int, memory func(i int) ferry.Memory[byte]) {
	count, from := len(src)/size, bytes.NewReader(src)
	parts, all := make([]ferry.ReadPart, count), make([]ferry.Memory[byte], count)
	for i := range parts {
		all[i] = memory(i)
		parts[i] = ferry.ReadPart{Src: from, Off: int64(i * size), Dst: all[i]}
	}
	for _, bad := range []int{0, 150, count - 1} {
		o := &ferry.PartsOptions{Hash: func(part int) hash.Hash {
			if part == bad {
				return &failingHash{left: 123}
			}
			return crc32.NewIEEE()
		}}
		_, err := ferry.CopyParts(t.Context(), s, parts, o)
		wantError(t, err, io.ErrClosedPipe)
		wantPart(t, "copy in", err, bad, 123)
		var out bytes.Buffer
		n, err := ferry.CopyPartsTo(t.Context(), s, &out, all, o)
		wantError(t, err, io.ErrClosedPipe)
		wantPart(t, "copy out", err, bad, 123)
		if n < int64(bad*size+123) || n > int64(out.Len()) {
			t.Errorf("part %d: %d bytes, want from %d to the %d that the writer has", bad, n, bad*size+123, out.Len())
		}
	}
}

// passFails is a driver that refuses a call of the copies to memory of Also.
type passFails struct {
	cu.Driver
	begin, submit atomic.Bool // refuse an event to begin them with, and the copies
}

func (d *passFails) Unwrap() cu.Driver { return d.Driver }

var errPassFails = errors.New("planted")

func (d *passFails) EventCreate(ctx cu.Context, f cu.EventFlags) (cu.Event, error) {
	if d.begin.Load() {
		return 0, errPassFails
	}
	return d.Driver.EventCreate(ctx, f)
}

func (d *passFails) Submit(ctx cu.Context, b *cu.Batch) (int, error) {
	if d.submit.Load() && b.Calls()[0].Op == cu.OpMemcpyDtoDAsync {
		return 0, errPassFails
	}
	return d.Driver.Submit(ctx, b)
}

// TestCopyPartsPassFails: an error of a copy to Also names that memory. One of what all of them need
// names no part.
func TestCopyPartsPassFails(t *testing.T) {
	d := &passFails{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := must(ferry.OpenDriver(d, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	dst, also, other := must(ferry.Alloc[byte](g, 100))(t), must(ferry.Alloc[byte](g, 100))(t), must(ferry.Alloc[byte](g, 100))(t)
	defer closeAll(t, dst, also, other, s, g)
	src := bytes.NewReader(make([]byte, 300))
	parts := []ferry.ReadPart{{Src: src, Dst: other}, {Src: src, Off: 100, Dst: dst, Also: []ferry.Memory[byte]{also}}}
	must(ferry.CopyParts(t.Context(), s, parts, nil))(t)
	d.submit.Store(true)
	_, err := ferry.CopyParts(t.Context(), s, parts, nil)
	wantError(t, err, errPassFails, "part 2 of 2, to "+also.String())
	wantPart(t, "a refused copy", err, 1, 0)
	d.submit.Store(false)
	d.begin.Store(true)
	_, err = ferry.CopyParts(t.Context(), s, parts, nil)
	d.begin.Store(false)
	wantError(t, err, errPassFails, "copy parts on ", "pass bytes on to Also")
	if _, ok := errors.AsType[*ferry.PartError](err); ok || strings.Contains(err.Error(), "part 1") {
		t.Errorf("%v blames a part", err)
	}
}

// TestCopyPartsAlsoOverlaps: memory of Also that shares bytes with Dst is refused.
func TestCopyPartsAlsoOverlaps(t *testing.T) {
	sample.SkipRace(t)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	d := must(ferry.Alloc[byte](g, 300))(t)
	defer closeAll(t, d, s)
	part := func(i, j int) []ferry.ReadPart {
		return []ferry.ReadPart{{Src: bytes.NewReader(make([]byte, 100)), Dst: d.Range(100, 200), Also: []ferry.Memory[byte]{d.Range(i, j)}}}
	}
	for _, i := range []int{1, 50, 100, 199} {
		_, err := ferry.CopyParts(t.Context(), s, part(i, i+100), nil)
		wantError(t, err, cu.ErrorInvalidValue, "part 1 of 1")
	}
	for _, i := range []int{0, 200} {
		must(ferry.CopyParts(t.Context(), s, part(i, i+100), nil))(t)
	}
}

// lostWithCopies refuses copies to the device, and what follows one.
type lostWithCopies struct {
	cu.Driver
	lost atomic.Bool
}

func (d *lostWithCopies) Unwrap() cu.Driver { return d.Driver }

var errLostCopy, errLostRecord = errors.New("planted copy"), errors.New("planted record")

func (d *lostWithCopies) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	if d.lost.Load() {
		return errLostCopy
	}
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

func (d *lostWithCopies) Submit(ctx cu.Context, b *cu.Batch) (int, error) {
	if d.lost.Load() {
		return 0, errLostCopy
	}
	return d.Driver.Submit(ctx, b)
}

func (d *lostWithCopies) EventRecord(ctx cu.Context, e cu.Event, s cu.Stream) error {
	if d.lost.Load() {
		return errLostRecord
	}
	return d.Driver.EventRecord(ctx, e, s)
}

// TestCopyPartsAllErrors: the error of a refused copy has the errors of the calls behind it.
func TestCopyPartsAllErrors(t *testing.T) {
	sample.SkipRace(t)
	d := &lostWithCopies{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := must(ferry.OpenDriver(d, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	dst := must(ferry.Alloc[byte](g, 100))(t)
	defer closeAll(t, dst, s, g)
	d.lost.Store(true)
	_, err := ferry.CopyParts(t.Context(), s, []ferry.ReadPart{{Src: bytes.NewReader(make([]byte, 100)), Dst: dst}}, nil)
	d.lost.Store(false)
	wantError(t, err, errLostCopy, "part 1 of 1")
	wantPart(t, "a lost device", err, 0, 0)
	if !errors.Is(err, errLostRecord) {
		t.Errorf("%v has no %v", err, errLostRecord)
	}
}
