package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

var background = context.Background()

// TestPlan: chunks cover everything once, none is larger than a slot, and they
// grow towards the device and shrink from it.
func TestPlan(t *testing.T) {
	for _, set := range []Settings{small, {Chunk: 8 << 20, Slots: 8, Block: 128 << 10}, {Chunk: 7, Slots: 1, Block: 7}} {
		for _, n := range []int64{0, 1, 6, 7, 8, 1023, 1024, 1025, 5000, 100_003, 1 << 20, 256<<20 + 1} {
			if n > 1<<20 && set.Chunk < 1<<10 {
				continue
			}
			for _, in := range []bool{true, false} {
				var off, blocks int64
				chunks := plan(n, in, set, true)
				for i := range chunks {
					c := &chunks[i]
					if c.off != off || c.first != blocks || c.n <= 0 || c.n > int64(set.Chunk) || c.blocks != (c.n+int64(set.Block)-1)/int64(set.Block) || c.left.Load() != c.blocks {
						t.Fatalf("%d bytes, in %t: chunk %d is %d bytes at %d, %d blocks from %d", n, in, i, c.n, c.off, c.blocks, c.first)
					}
					off, blocks = off+c.n, blocks+c.blocks
				}
				if off != n {
					t.Fatalf("%d bytes, in %t: %d planned", n, in, off)
				}
				if n == 256<<20+1 && in != (chunks[0].n < chunks[len(chunks)/2].n) {
					t.Errorf("in %t: the first of %d chunks has %d bytes", in, len(chunks), chunks[0].n)
				}
			}
		}
	}
}

func sized(chunk, slots, block, threads int) Settings {
	return Settings{Chunk: chunk, Slots: slots, Block: block, Threads: threads}
}

// TestPlanGrows: the first chunk to the device is an eighth of a small transfer and half
// as long as others of a large one, and they are all of one length soon.
func TestPlanGrows(t *testing.T) {
	set := sized(8<<20, 8, 128<<10, 12)
	for n, want := range map[int64]int64{1 << 20: 128 << 10, 8 << 20: 1 << 20, 32 << 20: 4 << 20, 256 << 20: 4 << 20} {
		chunks := plan(n, true, set, true)
		if chunks[0].n != want || len(chunks) > int(n>>23)+4 {
			t.Errorf("%d bytes: the first of %d chunks has %d, want %d", n, len(chunks), chunks[0].n, want)
		}
		for i := range chunks {
			if c := &chunks[i]; i > 0 && c.n > c.off {
				t.Errorf("%d bytes: chunk %d has %d bytes, and there are %d before it", n, i, c.n, c.off)
			}
		}
	}
}

// TestThreads: goroutines are started for what is worth it.
func TestThreads(t *testing.T) {
	r := &Ring{set: sized(8<<20, 8, 128<<10, 12)}
	for _, c := range []struct {
		bytes int64
		want  int
	}{{1, 1}, {128 << 10, 1}, {511 << 10, 1}, {512 << 10, 2}, {2 << 20, 8}, {3 << 20, 12}, {1 << 30, 12}} {
		if got := (&transfer{r: r, job: Job{Bytes: c.bytes}}).threads(12); got != c.want {
			t.Errorf("%d bytes: %d goroutines, want %d", c.bytes, got, c.want)
		}
	}
	if got := (&transfer{r: r, job: Job{Bytes: 1 << 30, Ordered: true}}).threads(12); got != 1 {
		t.Errorf("%d goroutines read in order", got)
	}
}

// TestFewSlots: a transfer to the device has few slots, so that they stay in the
// caches, and the next has the same.
func TestFewSlots(t *testing.T) {
	r := newRig(t, sized(4<<10, 8, 1<<10, 4), 200<<10, softgpu.Eager)
	for range 5 {
		_, err := r.ring.In(background, r.job(r.n), Memory(random(r.n)))
		r.check(err)
		r.check(r.d.StreamSynchronize(r.ctx, r.stream))
	}
	if n := r.d.most.Load(); n > few {
		t.Errorf("%d slots were taken", n)
	}
}

// TestOneAtTheDriver: however many goroutines copy, one at a time calls the driver,
// which makes the others wait.
func TestOneAtTheDriver(t *testing.T) {
	r := newRig(t, small, 200<<10, softgpu.Random)
	for range 5 {
		r.unharmed()
	}
	if n := r.d.crowd.Load(); n != 1 {
		t.Errorf("%d goroutines were in the driver at once", n)
	}
}

// TestAskOfTheOldest: in each stream one slot is asked whether the device is done
// with it, as those behind it cannot be.
func TestAskOfTheOldest(t *testing.T) {
	r := newRig(t, sized(1<<10, 8, 1<<10, 1), 8<<10, softgpu.Eager)
	other := r.newStream()
	r.hold(r.stream)
	r.hold(other)
	for i := range 8 {
		job := Job{Stream: r.stream, Device: r.device + cu.DevicePtr(i<<10), Bytes: 1 << 10}
		if i >= 5 {
			job.Stream = other
		}
		_, err := r.ring.In(background, job, Memory(random(1<<10)))
		r.check(err)
	}
	r.d.queries.Store(0)
	if done, err := r.ring.land(); done || err != nil {
		t.Error(done, err)
	}
	if n := r.d.queries.Load(); n != 2 {
		t.Errorf("%d slots were asked of two streams", n)
	}
}

// TestLanded: the device is not asked for slots of which the caller knows that it is done
// with them, but for those of a stream with another number, whatever its handle. What is
// free is open before the driver is called, which is done before there is anything to send.
func TestLanded(t *testing.T) {
	for number, known := range map[int]bool{1: true, 2: false} {
		r := newRig(t, sized(4<<10, 4, 1<<10, 4), 8<<10, softgpu.Eager)
		job := r.job(r.n)
		job.Number = 1
		open := r.hold(r.stream) // until four chunks have a slot each
		_, err := r.ring.In(background, job, Memory(random(r.n)))
		r.check(err)
		open()
		r.check(r.d.StreamSynchronize(r.ctx, r.stream))
		r.d.queries.Store(0)
		var calls []string
		r.d.fail = func(call string) error { calls = append(calls, call); return nil }
		job.Number, job.Landed, job.Bytes = number, r.ring.Flights(), 4<<10
		want := random(4 << 10)
		_, err = r.ring.In(background, job, Memory(want))
		r.check(err)
		r.d.fail = nil
		if asked := r.d.queries.Load() > 0; asked == known || known && calls[0] != "record" {
			t.Errorf("stream %d: asked %t, calls %v", number, asked, calls)
		}
		r.same("the second", r.onDevice(4<<10), want)
	}
}

// TestAllLanded: the last that flew has landed, too.
func TestAllLanded(t *testing.T) {
	r := newRig(t, sized(4<<10, 4, 1<<10, 4), 16<<10, softgpu.Eager)
	job := r.job(r.n)
	_, err := r.ring.In(background, job, Memory(random(r.n)))
	r.check(err)
	r.check(r.d.StreamSynchronize(r.ctx, r.stream))
	job.Landed = r.ring.Flights()
	r.ring.landed(&transfer{job: job})
	for i, s := range r.ring.slots {
		if s.state != free {
			t.Errorf("slot %d of %d is not free", i, len(r.ring.slots))
		}
	}
}

// TestAdaptEach: what is learnt of one direction does not count for the other.
func TestAdaptEach(t *testing.T) {
	r := newRig(t, small, 200<<10, softgpu.Eager)
	for range 20 {
		_, err := r.ring.Out(background, r.job(r.n), slow{Memory(make([]byte, r.n)), nil})
		r.check(err)
	}
	if got := r.ring.threads; got[inward] != small.Threads || got[outward] == small.Threads {
		t.Errorf("after copies out, %v goroutines", got)
	}
}

// TestStands: what flies in a stream that stands still is not taken for landed.
func TestStands(t *testing.T) {
	r := newRig(t, sized(4<<10, 8, 1<<10, 4), 8<<10, softgpu.Eager)
	before := r.ring.Flights()
	open := r.hold(r.stream)
	first, second := random(8<<10), random(8<<10)
	for _, src := range [][]byte{first, second} {
		job := r.job(r.n)
		job.Number, job.Landed = 1, before
		if bytes.Equal(src, second) {
			job.Device, job.Bytes = r.device+4<<10, 4<<10
		}
		_, err := r.ring.In(background, job, Memory(src))
		r.check(err)
	}
	open()
	r.same("both", r.onDevice(r.n), append(bytes.Clone(first[:4<<10]), second[:4<<10]...))
}

// TestRoundTrip: every byte arrives, there and back, whatever the sizes, numbers
// of goroutines and slots, and the order in which the device does things.
func TestRoundTrip(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		for _, set := range []Settings{small, sized(4<<10, 1, 1<<10, 1), sized(4<<10, 2, 4<<10, 8), sized(64<<10, 8, 1<<10, 3)} {
			r := newRig(t, set, 200<<10, schedule)
			for _, n := range []int64{0, 1, 1023, 1025, 4 << 10, 5000, 31 << 10, 200 << 10} {
				what := fmt.Sprintf("%v %+v %d", schedule, set, n)
				want, got := random(n), random(n)
				r.poison()
				done, err := r.ring.In(background, r.job(n), Memory(want))
				if r.check(err); done != n {
					t.Fatalf("%s: %d bytes in", what, done)
				}
				r.same(what+" in", r.onDevice(n), want)
				done, err = r.ring.Out(background, r.job(n), Memory(got))
				if r.check(err); done != n {
					t.Fatalf("%s: %d bytes out", what, done)
				}
				r.same(what+" out", got, want)
			}
			if r.d.most.Load() > int64(set.Slots) {
				t.Errorf("%+v: there were %d slots", set, r.d.most.Load())
			}
			r.close()
		}
	}
}

// TestFewProcessors: the leader comes to its turn where those who copy are as many as
// the processors.
func TestFewProcessors(t *testing.T) {
	r := newRig(t, small, 100<<10, softgpu.Random)
	for _, n := range []int{1, 2, 3, 4} {
		old := runtime.GOMAXPROCS(n)
		r.ring.mu.Lock()
		hands := r.ring.hands(inward)
		r.ring.mu.Unlock()
		if want := min(n, 3); hands != want {
			t.Errorf("%d processors: %d goroutines, want %d", n, hands, want)
		}
		r.unharmed()
		runtime.GOMAXPROCS(old)
	}
}

// TestSourceIsFree: a source may change when In has returned, though the stream
// stands still.
func TestSourceIsFree(t *testing.T) {
	r := newRig(t, small, 3<<10, softgpu.Eager)
	open := r.hold(r.stream)
	src := random(3 << 10)
	want := bytes.Clone(src)
	_, err := r.ring.In(background, r.job(3<<10), Memory(src))
	r.check(err)
	clear(src)
	open()
	r.same("source", r.onDevice(3<<10), want)
}

// TestInOrder: copies take their turn in the stream.
func TestInOrder(t *testing.T) {
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

// failing reads ones, up to an offset.
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

// TestErrorInTheMiddle: the error says at which byte; what is before it arrives,
// what is after it does not, and the next transfer is well.
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
		r.unharmed()
		r.close()
	}
}

// unharmed says that the ring works as if nothing had been.
func (r *rig) unharmed() {
	r.Helper()
	want, got := random(r.n), random(r.n)
	_, err := r.ring.In(background, r.job(r.n), Memory(want))
	r.check(err)
	_, err = r.ring.Out(background, r.job(r.n), Memory(got))
	r.check(err)
	r.same("the next transfer", got, want)
}

// TestReaderEnds early: what was there arrives, and the error says so.
func TestReaderEnds(t *testing.T) {
	r := newRig(t, small, 20<<10, softgpu.Eager)
	want := random(11111)
	job := r.job(r.n)
	job.Ordered = true
	n, err := r.ring.In(background, job, Reader(bytes.NewReader(want)))
	if n != 11111 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
	r.same("what there was", r.onDevice(11111), want)
	n, err = r.ring.In(background, r.job(r.n), Memory(want))
	if n != 11111 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short memory: %d bytes, %v", n, err)
	}
}

// TestWriter gets the bytes in order.
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

// TestFair: transfers at the same time have no more than their share of the
// slots, and all arrive.
func TestFair(t *testing.T) {
	const transfers = 4
	set := Settings{Chunk: 2 << 10, Slots: 8, Block: 1 << 10, Threads: 8}
	r := newRig(t, set, 64<<10*transfers, softgpu.Random)
	var looked, over atomic.Int64
	for round := 0; round < 100 && looked.Load() == 0; round++ { // until they meet
		var all sync.WaitGroup
		for i := range transfers {
			job := Job{Stream: r.newStream(), Device: r.device + cu.DevicePtr(i*64<<10), Bytes: 64 << 10}
			all.Go(func() {
				want, got := random(job.Bytes), make([]byte, job.Bytes)
				src := slow{want, func(off int64) {
					if off > job.Bytes/2 && r.ring.runs(transfers) {
						looked.Add(1)
						over.Add(r.ring.over(set.Slots / transfers))
					}
				}}
				if _, err := r.ring.In(background, job, src); err != nil {
					t.Error(err)
				}
				if _, err := r.ring.Out(background, job, Memory(got)); err != nil || !bytes.Equal(got, want) {
					t.Error("the bytes differ:", err)
				}
			})
		}
		all.Wait()
	}
	if looked.Load() == 0 || over.Load() > 0 {
		t.Errorf("looked %d times: %d transfers had more slots than their share", looked.Load(), over.Load())
	}
}

// slow takes its time and calls look.
type slow struct {
	Memory
	look func(off int64)
}

func (s slow) ReadAt(p []byte, off int64) (int, error) {
	time.Sleep(time.Millisecond)
	s.look(off)
	return s.Memory.ReadAt(p, off)
}

// runs says whether n transfers run.
func (r *Ring) runs(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs == n
}

// over counts the transfers with more slots than most.
func (r *Ring) over(most int) (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have := map[*transfer]int{}
	for _, s := range r.slots {
		if s.owner != nil {
			if have[s.owner]++; have[s.owner] == most+1 {
				n++
			}
		}
	}
	return n
}

// TestDriverFails at any call: the error comes through, and nothing is lost.
func TestDriverFails(t *testing.T) {
	for _, call := range []string{"alloc", "in", "out", "record"} {
		for nth := int64(1); nth < 8; nth++ {
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
			r.unharmed()
			r.close()
		}
	}
}

// TestOutOfMemory: a ring makes do with the slots that it could get.
func TestOutOfMemory(t *testing.T) {
	r := newRig(t, small, 30<<10, softgpu.Eager)
	var allocs atomic.Int64
	r.d.fail = func(call string) error {
		if call == "alloc" && allocs.Add(1) > 1 {
			return cu.ErrorOutOfMemory
		}
		return nil
	}
	r.unharmed()
	if r.d.most.Load() != 1 {
		t.Errorf("%d slots", r.d.most.Load())
	}
}

// TestAdapt: goroutines that wait for the device become fewer, those that the
// device waits for more, up to what is set.
func TestAdapt(t *testing.T) {
	r := newRig(t, small, 1, softgpu.Eager)
	step := func(part float64, want int) {
		t.Helper()
		w := r.ring.threads[inward]
		r.ring.adapt(inward, w, time.Duration(part*float64(w)*1e6), 1e6)
		if got := r.ring.threads; got != [2]int{want, small.Threads} {
			t.Errorf("busy %.1f of the time: %d goroutines, then %d, want %d in", part, w, got, want)
		}
	}
	for _, s := range []struct {
		part float64
		want int
	}{{0.3, 3}, {0.3, 2}, {0.7, 2}, {0.95, 3}, {0.95, 4}, {0.95, 4}, {0.1, 3}, {0.1, 2}, {0.1, 1}, {0.1, 1}} {
		step(s.part, s.want)
	}
}
