package staging

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// scattered is a List of slices, each with another place on the device.
type scattered struct {
	List
	slices [][]byte
	places []int64 // offsets on the device
}

// scatter makes slices of random bytes for places that do not overlap.
func scatter(luck *rand.Rand, sizes []int) *scattered {
	x, at := new(scattered), int64(0)
	for _, n := range sizes {
		at += luck.Int64N(300)
		x.slices, x.places = append(x.slices, random(int64(n))), append(x.places, at)
		at += int64(n)
	}
	return x
}

// list fills the List for a device address, in random order.
func (x *scattered) list(luck *rand.Rand, device cu.DevicePtr) {
	x.Reset()
	for _, i := range luck.Perm(len(x.slices)) {
		x.Add(x.slices[i], device+cu.DevicePtr(x.places[i]))
	}
}

// jobOf returns a transfer of x. calls, if not nil, is called before each copy.
func (r *rig) jobOf(x *scattered, in bool, calls func(Piece) error) Job {
	job := Job{Stream: r.stream, Bytes: x.Bytes()}
	job.Copy = func(ring cu.HostPtr, off, n int64) error {
		slot := bytesAt(ring, int(n))
		for p := range x.Pieces(off, n) {
			if calls != nil {
				if err := calls(p); err != nil {
					return err
				}
			}
			var err error
			if host := cu.HostPtr(&slot[p.At]); in {
				err = r.d.MemcpyHtoDAsync(r.ctx, p.Device, host, uintptr(len(p.Memory)), r.stream)
			} else {
				err = r.d.MemcpyDtoHAsync(r.ctx, host, p.Device, uintptr(len(p.Memory)), r.stream)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return job
}

var manySizes = [][]int{
	{}, {1}, {0, 5, 0}, {5000}, {200 << 10}, slices.Repeat([]int{1}, 300), slices.Repeat([]int{129}, 200), slices.Repeat([]int{1024}, 64),
	{1, 70_000, 3, 4096, 4095, 4097, 12_345, 1, 1},
}

// TestListRoundTrip: all parts of a List arrive, there and back, and no other bytes change,
// whatever the sizes, the settings, and the schedule of the device. Settings are drawn.
func TestListRoundTrip(t *testing.T) {
	large := nonTemporalAll()
	large.Chunk, large.Block = 64<<10, 16<<10
	for _, c := range scheduled(t, small, sized(4<<10, 1, 1<<10, 1), sized(64<<10, 8, 1<<10, 3), nonTemporalAll(), large) {
		r := newRig(t, c.set, 300<<10, c.schedule)
		luck := rand.New(rand.NewPCG(4, uint64(c.schedule)))
		for i, sizes := range manySizes {
			r.listRoundTrip(luck, scatter(luck, sizes), fmt.Sprintf("%v, %v, %d slots", c.schedule, i, c.set.Slots))
		}
		r.close()
	}
}

func (r *rig) listRoundTrip(luck *rand.Rand, x *scattered, what string) {
	r.Helper()
	r.poison()
	whole := bytes.Repeat([]byte{0xee}, int(r.n))
	var want [][]byte
	for i, s := range x.slices {
		copy(whole[x.places[i]:], s)
		want = append(want, slices.Clone(s))
	}
	x.list(luck, r.device)
	if n, err := r.ring.In(background, r.jobOf(x, true, nil), &x.List); err != nil || n != x.Bytes() {
		r.Fatalf("%s: %d bytes of %d in, %v", what, n, x.Bytes(), err)
	}
	for _, s := range x.slices {
		clear(s)
	}
	r.same(what+" in", r.onDevice(r.n), whole)
	x.list(luck, r.device)
	if n, err := r.ring.Out(background, r.jobOf(x, false, nil), &x.List); err != nil || n != x.Bytes() {
		r.Fatalf("%s: %d bytes of %d out, %v", what, n, x.Bytes(), err)
	}
	for i, s := range x.slices {
		r.same(fmt.Sprintf("%s out, slice %d", what, i), s, want[i])
	}
}

// TestListAlignment: a part begins at a byte of the transfer that is aligned like its place
// on the device, and the gaps are short.
func TestListAlignment(t *testing.T) {
	var l List
	sum := int64(0)
	luck := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		m := make([]byte, 1+luck.IntN(5000))
		l.Add(m, cu.DevicePtr(luck.Uint64N(1<<40)))
		sum += int64(len(m))
	}
	end := int64(0)
	for i, p := range l.parts {
		if (uint64(p.at)-uint64(p.device))%alignment != 0 || p.at < end || p.at >= end+alignment {
			t.Fatalf("part %d is at %d after %d, on the device at %#x", i, p.at, end, p.device)
		}
		for _, off := range []int64{0, int64(len(p.memory)) - 1} {
			if part, at := l.Find(p.at + off); part != i || at != off {
				t.Errorf("byte %d of part %d is found at byte %d of part %d", off, i, at, part)
			}
		}
		if part, at := l.Find(end); part != i || at != 0 {
			t.Errorf("the gap before part %d is found at byte %d of part %d", i, at, part)
		}
		end = p.at + int64(len(p.memory))
	}
	if end != l.Bytes() || l.Bytes() < sum {
		t.Errorf("%d bytes, parts end at %d", l.Bytes(), end)
	}
	if part, _ := l.Find(end); part != 1000 {
		t.Errorf("the end is in part %d", part)
	}
	for _, off := range []int64{-1, end - 9} {
		p := make([]byte, 10)
		if n, err := l.ReadAt(p, off); n != 0 || err == nil {
			t.Errorf("ReadAt(%d): %d, %v", off, n, err)
		}
		if n, err := l.WriteAt(p, off); n != 0 || err == nil {
			t.Errorf("WriteAt(%d): %d, %v", off, n, err)
		}
	}
}

// TestListCopyFails: when Job.Copy fails in the middle of a chunk, of which copies are then
// queued, the slot stays in use until the device is done with them. The error is that of
// Copy, and what is before the chunk is copied.
func TestListCopyFails(t *testing.T) {
	for _, in := range []bool{true, false} {
		r := newRig(t, small, 300<<10, softgpu.Lazy)
		luck := rand.New(rand.NewPCG(4, 4))
		x := scatter(luck, slices.Repeat([]int{900}, 100))
		want := make([][]byte, len(x.slices))
		for i := range x.slices {
			x.Add(x.slices[i], r.device+cu.DevicePtr(x.places[i]))
			want[i] = slices.Clone(x.slices[i])
		}
		if _, err := r.ring.In(background, r.jobOf(x, true, nil), &x.List); err != nil {
			t.Fatal(err)
		}
		r.check(r.d.StreamSynchronize(r.ctx, r.stream))
		if in {
			r.poison()
		} else {
			for i := range x.slices {
				clear(x.slices[i])
			}
		}
		job := r.jobOf(x, in, func(p Piece) error {
			if p.Part == 61 {
				return cu.ErrorNotMapped
			}
			return nil
		})
		var failed cu.HostPtr // the slot of the chunk
		queue := job.Copy
		job.Copy = func(ring cu.HostPtr, off, n int64) error {
			err := queue(ring, off, n)
			if err != nil {
				failed = ring
			}
			return err
		}
		n, err := int64(0), error(nil)
		if in {
			n, err = r.ring.In(background, job, &x.List)
		} else {
			n, err = r.ring.Out(background, job, &x.List)
		}
		if i := slices.IndexFunc(r.ring.slots, func(s *slot) bool { return s.host == failed }); i < 0 || r.ring.slots[i].state != slotInFlight {
			t.Errorf("in %v: the slot of the chunk that failed is free, want in flight", in)
		}
		part, at := x.Find(n)
		if err == nil || !strings.Contains(err.Error(), cu.ErrorNotMapped.Error()) || part < 55 || part > 61 {
			t.Errorf("in %v: %d bytes, which is byte %d of part %d, %v", in, n, at, part, err)
		}
		device := r.onDevice(r.n)
		for i := range part {
			got := x.slices[i]
			if in {
				got = device[x.places[i]:][:900]
			}
			r.same(fmt.Sprintf("in %v: part %d of %d", in, i, part), got, want[i])
		}
		for i := part + 1; !in && i < len(x.slices); i++ {
			r.same(fmt.Sprintf("part %d, after the error", i), x.slices[i], make([]byte, 900))
		}
		r.stillWorks()
		r.close()
	}
}

// TestChunkOfTransfer: short transfers and those of few workers have short chunks, whole blocks, never longer than a slot.
func TestChunkOfTransfer(t *testing.T) {
	set := sized(8<<20, 8, 128<<10, 12)
	for _, c := range []struct {
		bytes int64
		few   bool
		want  int
	}{
		{1 << 20, false, 4 << 20}, {int64(set.LongFrom) - 1, false, 4 << 20}, {int64(set.LongFrom), false, 8 << 20},
		{1 << 40, false, 8 << 20}, {1 << 40, true, 4 << 20},
	} {
		if got := set.chunk(c.bytes, c.few); got != c.want {
			t.Errorf("%d bytes, few workers %t: chunks of %d bytes, want %d", c.bytes, c.few, got, c.want)
		}
	}
	tiny := sized(64<<10, 8, 128<<10, 12) // as a profile may say
	if got := tiny.chunk(1, false); got != tiny.Chunk {
		t.Errorf("blocks larger than slots: chunks of %d bytes, want %d", got, tiny.Chunk)
	}
	for _, short := range []int{1, 128<<10 - 1, 1 << 40} {
		set.ShortChunk = short
		if got := set.chunk(1, false); got%set.Block != 0 || got < set.Block || got > set.Chunk {
			t.Errorf("short chunks of %d bytes: %d bytes", short, got)
		}
	}
}

// TestFewSpin: with two processors waits poll for a short time only.
func TestFewSpin(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(fewProcessors))
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set := sized(4<<10, 3, 1<<10, 4)
	for _, c := range []struct {
		processors int
		want       time.Duration
	}{{1, fewSpin}, {fewProcessors, fewSpin}, {fewProcessors + 1, set.SpinTime}} {
		runtime.GOMAXPROCS(c.processors)
		r := New(d, 0, set, Hooks{})
		if r.set.SpinTime != c.want {
			t.Errorf("%d processors: %v, want %v", c.processors, r.set.SpinTime, c.want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
