package staging

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestWorkerCount: a transfer gets as many workers as it is worth.
func TestWorkerCount(t *testing.T) {
	r := &Ring{set: sized(8<<20, 8, 128<<10, 12)}
	for _, c := range []struct {
		bytes int64
		want  int
	}{{1, 1}, {128 << 10, 1}, {511 << 10, 1}, {512 << 10, 2}, {2 << 20, 8}, {3 << 20, 12}, {1 << 30, 12}} {
		if got := (&transfer{r: r, job: Job{Bytes: c.bytes}}).workerCount(12); got != c.want {
			t.Errorf("%d bytes: %d workers, want %d", c.bytes, got, c.want)
		}
	}
	if got := (&transfer{r: r, job: Job{Bytes: 1 << 30, Ordered: true}}).workerCount(12); got != 1 {
		t.Errorf("%d workers read in order, want 1", got)
	}
}

// TestOneCallsTheDriver: however many goroutines copy, one at a time calls the driver.
func TestOneCallsTheDriver(t *testing.T) {
	r := newRig(t, small, 200<<10, softgpu.Random)
	for range 5 {
		r.stillWorks()
	}
	if n := r.d.mostInside.Load(); n != 1 {
		t.Errorf("%d goroutines were in the driver at once, want 1", n)
	}
}

// TestRoundTrip: every byte arrives, there and back, whatever the sizes, the numbers of
// workers and slots, and the schedule of the device. Settings are drawn.
func TestRoundTrip(t *testing.T) {
	for _, c := range scheduled(t, small, sized(4<<10, 1, 1<<10, 1), sized(4<<10, 2, 4<<10, 8), sized(64<<10, 8, 1<<10, 3), nonTemporalAll()) {
		r := newRig(t, c.set, 200<<10, c.schedule)
		for _, n := range []int64{0, 1, 1023, 1025, 4 << 10, 5000, 31 << 10, 200 << 10} {
			r.roundTrip(fmt.Sprintf("%v %+v %d", c.schedule, c.set, n), n)
		}
		if r.d.most.Load() > int64(c.set.Slots+c.set.SmallSlots) {
			t.Errorf("%+v: there were %d slots", c.set, r.d.most.Load())
		}
		r.close()
	}
}

// scheduledSettings are settings and a schedule of the device.
type scheduledSettings struct {
	schedule softgpu.Schedule
	set      Settings
}

// scheduled returns two of the settings with each schedule, drawn, or all. In a race build it is one.
func scheduled(t *testing.T, sets ...Settings) (all []scheduledSettings) {
	t.Helper()
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		for _, set := range sets {
			all = append(all, scheduledSettings{schedule, set})
		}
	}
	part := 3
	if sample.Race() {
		part = len(sets)
	}
	return sample.OfEach(t, all, func(c scheduledSettings) string { return fmt.Sprint(c.schedule) }, part)
}

// nonTemporalAll returns settings with which all sizes are written past the caches, and
// with which the end of a transfer is demoted.
func nonTemporalAll() Settings {
	set := small
	set.NonTemporalFrom, set.LastBytes, set.DemoteFrom = 1, 3<<10, 16<<10
	return set
}

func (r *rig) roundTrip(what string, n int64) {
	r.Helper()
	want, got := random(n), random(n)
	r.poison()
	done, err := r.ring.In(background, r.job(n), Memory(want))
	if r.check(err); done != n {
		r.Fatalf("%s: %d bytes in, want %d", what, done, n)
	}
	r.same(what+" in", r.onDevice(n), want)
	done, err = r.ring.Out(background, r.job(n), Memory(got))
	if r.check(err); done != n {
		r.Fatalf("%s: %d bytes out, want %d", what, done, n)
	}
	r.same(what+" out", got, want)
}

// TestSourceIsFree: a source may change when In has returned, though the stream does not
// advance.
func TestSourceIsFree(t *testing.T) {
	r := newRig(t, small, 3<<10, softgpu.Eager)
	resume := r.block(r.stream)
	src := random(3 << 10)
	want := bytes.Clone(src)
	_, err := r.ring.In(background, r.job(3<<10), Memory(src))
	r.check(err)
	clear(src)
	resume()
	r.same("source", r.onDevice(3<<10), want)
}

// TestStreamOrder: copies happen in the order of the stream.
func TestStreamOrder(t *testing.T) {
	r := newRig(t, small, 20<<10, softgpu.Lazy)
	first, second, got := random(20<<10), random(20<<10), make([]byte, 20<<10)
	for _, src := range [][]byte{first, second} {
		_, err := r.ring.In(background, r.job(r.n), Memory(src))
		r.check(err)
	}
	_, err := r.ring.Out(background, r.job(r.n), Memory(got))
	r.check(err)
	r.same("the second", got, second)
}

// failing reads ones and writes anything, up to an offset.
type failing struct {
	at  int64
	err error
}

func (f failing) ReadAt(p []byte, off int64) (int, error) { return f.do(p, off, true) }

func (f failing) WriteAt(p []byte, off int64) (int, error) { return f.do(p, off, false) }

func (f failing) do(p []byte, off int64, read bool) (int, error) {
	n := int(max(0, min(int64(len(p)), f.at-off)))
	for i := range p[:n] {
		if read {
			p[i] = 1
		}
	}
	if n < len(p) {
		return n, f.err
	}
	return n, nil
}

// TestErrorInTheMiddle: the error names the byte. The bytes before it arrive, those after
// it do not, and the next transfer works.
func TestErrorInTheMiddle(t *testing.T) {
	cause := errors.New("disk on fire")
	for _, at := range []int64{0, 1, 1023, 1024, 5000, 19999} {
		r := newRig(t, small, 20<<10, softgpu.Random)
		r.poison()
		n, err := r.ring.In(background, r.job(r.n), failing{at, cause})
		if n != at || !errors.Is(err, cause) || !strings.Contains(err.Error(), fmt.Sprintf("byte %d:", at)) {
			t.Errorf("in: %d bytes, %v, want %d", n, err, at)
		}
		got := r.onDevice(r.n)
		for i, b := range got {
			if int64(i) < at != (b == 1) {
				t.Fatalf("fails at %d: byte %d is %#x", at, i, b)
			}
		}
		n, err = r.ring.Out(background, r.job(r.n), failing{at, cause})
		if n != at || !errors.Is(err, cause) {
			t.Errorf("out: %d bytes, %v, want %d", n, err, at)
		}
		r.stillWorks()
		r.close()
	}
}

// TestReaderEndsEarly: what the reader had arrives, and the error is
// io.ErrUnexpectedEOF.
func TestReaderEndsEarly(t *testing.T) {
	r := newRig(t, small, 20<<10, softgpu.Eager)
	want := random(11111)
	job := r.job(r.n)
	job.Ordered = true
	n, err := r.ring.In(background, job, Reader(bytes.NewReader(want)))
	if n != 11111 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
	r.same("what the reader had", r.onDevice(11111), want)
	n, err = r.ring.In(background, r.job(r.n), Memory(want))
	if n != 11111 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short memory: %d bytes, %v", n, err)
	}
}

// TestWriter: a writer gets the bytes in order.
func TestWriter(t *testing.T) {
	r := newRig(t, small, 20<<10, softgpu.Random)
	want := random(r.n)
	_, err := r.ring.In(background, r.job(r.n), Memory(want))
	r.check(err)
	var got bytes.Buffer
	job := r.job(r.n)
	job.Ordered = true
	_, err = r.ring.Out(background, job, Writer(&got))
	r.check(err)
	r.same("written", got.Bytes(), want)
}

// TestDriverFails: a failure of any call of the driver is returned, and nothing is lost.
func TestDriverFails(t *testing.T) {
	for _, call := range []string{"alloc", "in", "out", "record"} {
		for nth := int64(1); nth < int64(sample.Count(4, 8)); nth++ {
			r := newRig(t, small, 30<<10, softgpu.Random)
			want := random(r.n)
			r.poison()
			var calls, failed atomic.Int64
			r.d.fail = func(c string) error {
				if c == call && calls.Add(1) == nth {
					failed.Add(1)
					return cu.ErrorNotMapped
				}
				return nil
			}
			_, inErr := r.ring.In(background, r.job(r.n), Memory(want))
			_, outErr := r.ring.Out(background, r.job(r.n), Memory(make([]byte, r.n)))
			if got := errors.Join(inErr, outErr); (failed.Load() > 0) != errors.Is(got, cu.ErrorNotMapped) {
				t.Errorf("%s %d: failed %d times: %v", call, nth, failed.Load(), got)
			}
			r.d.fail = nil
			r.stillWorks()
			r.close()
		}
	}
}

// TestFailedCallQueued: a call of the driver can queue a copy and fail all the same. No other
// transfer gets the slot before that copy is done.
func TestFailedCallQueued(t *testing.T) {
	fails := func(calls ...string) func(string) error {
		return func(c string) error {
			if slices.Contains(calls, c) {
				return cu.ErrorNotMapped
			}
			return nil
		}
	}
	const n = 1 << 10 // one chunk
	for name, arm := range map[string]func(d *testDriver){
		"the copy":             func(d *testDriver) { d.late = fails("in", "out") },
		"the record, the wait": func(d *testDriver) { d.fail = fails("record", "sync", "query") },
	} {
		for _, in := range []bool{true, false} {
			r := newRig(t, small, 2*n, softgpu.Eager)
			other := Job{Stream: r.newStream(), Device: r.device + n, Bytes: n}
			first, second := random(n), random(n)
			r.poison()
			resume, resumeOther := r.block(r.stream), r.block(other.Stream)
			arm(r.d)
			var err error
			if in {
				_, err = r.ring.In(background, r.job(n), Memory(first))
			} else {
				_, err = r.ring.Out(background, r.job(n), Memory(first))
			}
			if !errors.Is(err, cu.ErrorNotMapped) {
				t.Fatalf("%s, in %t: got %v, want %v", name, in, err, cu.ErrorNotMapped)
			}
			r.d.fail, r.d.late = nil, nil
			_, err = r.ring.In(background, other, Memory(second))
			r.check(err)
			resume()
			got := r.onDevice(n)
			resumeOther()
			r.check(r.d.StreamSynchronize(r.ctx, other.Stream))
			r.same(fmt.Sprintf("%s, in %t: the other", name, in), r.onDevice(2 * n)[n:], second)
			if in {
				r.same(name+": what the failed call queued", got, first)
			}
			r.stillWorks()
			r.close()
		}
	}
}

// TestRefusedInHostFunction: a transfer in a host function, where the driver refuses every call,
// gives up no slot.
func TestRefusedInHostFunction(t *testing.T) {
	r := newRig(t, small, 1<<10, softgpu.Eager)
	r.stillWorks()
	slots := r.d.slots.Load()
	r.d.fail = func(call string) error {
		if call == "alloc" {
			return nil
		}
		return cu.ErrorNotPermitted
	}
	for range 10 {
		_, inErr := r.ring.In(background, r.job(r.n), Memory(random(r.n)))
		_, outErr := r.ring.Out(background, r.job(r.n), Memory(random(r.n)))
		if !errors.Is(inErr, cu.ErrorNotPermitted) || !errors.Is(outErr, cu.ErrorNotPermitted) {
			t.Fatalf("got %v and %v, want %v", inErr, outErr, cu.ErrorNotPermitted)
		}
	}
	if got := r.d.slots.Load(); got != slots {
		t.Errorf("%d slots, want %d", got, slots)
	}
}

// BenchmarkTransfer copies through a ring on a software GPU: what the ring costs besides
// the link.
func BenchmarkTransfer(b *testing.B) {
	for _, n := range []int64{64 << 10, 1 << 20, 64 << 20} {
		r := newRig(b, DefaultSettings(), n, softgpu.Eager)
		m := Memory(random(n))
		for name, do := range map[string]func() (int64, error){
			"in":  func() (int64, error) { return r.ring.In(background, r.job(n), m) },
			"out": func() (int64, error) { return r.ring.Out(background, r.job(n), m) },
		} {
			b.Run(fmt.Sprintf("dir=%s/size=%d", name, n), func(b *testing.B) {
				b.SetBytes(n)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := do(); err != nil {
						b.Fatal(err)
					}
					r.check(r.d.StreamSynchronize(r.ctx, r.stream))
				}
			})
		}
		r.close()
	}
}
