package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// readAt is a source that is a function.
type readAt func(p []byte, off int64) (int, error)

func (f readAt) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// TestCopyPartsAsHardware is TestCopyParts on a software GPU that Ferry takes for hardware: several
// goroutines read.
func TestCopyPartsAsHardware(t *testing.T) {
	sample.SkipRace(t)
	g := must(ferry.OpenDriver(&gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Random)}, 0))(t)
	t.Cleanup(func() { closeAll(t, g) })
	testCopyParts(t, g)
	testCopyParts(t, g)
}

// endingHash is a hash whose Write ends.
type endingHash struct {
	hash.Hash
	end func() error
}

func (h endingHash) Write([]byte) (int, error) { return 0, h.end() }

// TestCopyPartsEnd: code of the program fails, panics or ends its goroutine: a source, a writer, a
// hash, progress. A panic reaches the caller. It leaves no slot in use, the next call works, and the
// GPU can be closed.
func TestCopyPartsEnd(t *testing.T) {
	const n = 300_000
	planted := errors.New("planted")
	canEnd, cancel := context.WithCancel(t.Context())
	defer cancel()
	want := make([]byte, 2*n)
	fillRandom(want)
	for name, end := range map[string]func() error{
		"error":  func() error { return planted },
		"panic":  func() error { panic(planted) },
		"Goexit": func() error { runtime.Goexit(); return nil },
	} {
		d := &releases{Driver: &gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}}
		g := must(ferry.OpenDriver(d, 0))(t)
		s := must(ferry.NewStream(g, nil))(t)
		device, host := must(ferry.Alloc[byte](g, n))(t), must(ferry.AllocHost[byte](g, n, nil))(t)
		memory := []ferry.Memory[byte]{host, device}
		parts := func(src io.ReaderAt) []ferry.ReadPart {
			return []ferry.ReadPart{{Src: bytes.NewReader(want), Dst: host}, {Src: src, Off: n, Dst: device}}
		}
		failing := readAt(func([]byte, int64) (int, error) { return 0, end() })
		good := bytes.NewReader(want)
		hashes := &ferry.PartsOptions{Hash: func(part int) hash.Hash {
			if part == 1 {
				return endingHash{end: end}
			}
			return nil
		}}
		progress := &ferry.PartsOptions{Progress: func(done int64) {
			if done == 2*n {
				_ = end()
			}
		}}
		for what, c := range map[string]struct {
			do    func(ctx context.Context) (int64, error)
			reads bool // by the caller's goroutine, if the context cannot end
			calls bool // the caller's goroutine calls it
		}{
			"a source": {func(ctx context.Context) (int64, error) { return ferry.CopyParts(ctx, s, parts(failing), nil) }, true, false},
			"a hash":   {func(ctx context.Context) (int64, error) { return ferry.CopyParts(ctx, s, parts(good), hashes) }, false, false},
			"progress": {func(ctx context.Context) (int64, error) { return ferry.CopyParts(ctx, s, parts(good), progress) }, false, true},
			"a writer": {func(ctx context.Context) (int64, error) {
				return ferry.CopyPartsTo(ctx, s, endingIO(end), memory[1:], nil)
			}, true, false},
			"a hash of a writer": {func(ctx context.Context) (int64, error) { return ferry.CopyPartsTo(ctx, s, io.Discard, memory, hashes) }, false, false},
			"progress of a writer": {func(ctx context.Context) (int64, error) {
				return ferry.CopyPartsTo(ctx, s, io.Discard, memory, progress)
			}, false, true},
		} {
			for _, ctx := range []context.Context{nil, canEnd} {
				for range sample.Count(3, 40) {
					what := fmt.Sprintf("%s in %s, context can end %t", name, what, ctx != nil)
					onCaller := c.calls || c.reads && ctx == nil
					returned, value, err := endOf(t, what, func() (int64, error) { return c.do(ctx) })
					if returned != (name == "error" || name == "Goexit" && !onCaller) || (value == any(planted)) != (name == "panic") {
						t.Fatalf("%s: returned %t, panic of %v, %v", what, returned, value, err)
					}
					if returned && !c.calls && (err == nil || !errors.Is(err, planted) && !strings.Contains(err.Error(), "runtime.Goexit")) {
						t.Fatalf("%s: %v", what, err)
					}
				}
			}
		}
		check(t, last(ferry.CopyParts(t.Context(), s, parts(good), nil)))
		var got bytes.Buffer
		check(t, last(ferry.CopyPartsTo(t.Context(), s, &got, memory, nil)))
		wantBytes(t, got.Bytes(), want)
		if at := must(g.Staging().Stats())(t); at.Locked > at.Limit {
			t.Errorf("%s: %+v", name, at)
		}
		closeAll(t, device, host, s, g)
		if k := d.n.Load(); k != 1 {
			t.Errorf("%s: the context was released %d times, want once", name, k)
		}
	}
}

// TestCopyPartsHangs: a call whose source or writer hangs returns when its context ends, also in the
// middle. What was read before arrives, the late call touches no memory, and all can be closed.
func TestCopyPartsHangs(t *testing.T) {
	const n, at = 12 << 20, 5 << 20
	g := must(ferry.OpenDriver(&gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	want := make([]byte, n)
	fillRandom(want)
	for _, m := range []func() (ferry.Memory[byte], io.Closer){
		func() (ferry.Memory[byte], io.Closer) { d := must(ferry.Alloc[byte](g, n))(t); return d, d },
		func() (ferry.Memory[byte], io.Closer) { h := must(ferry.AllocHost[byte](g, n, nil))(t); return h, h },
	} {
		memory, closer := m()
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		src := readAt(func(p []byte, off int64) (int, error) {
			if off+int64(len(p)) > at {
				cancel()
				<-release
			}
			return copy(p, want[off:]), nil
		})
		ends(t, "CopyParts", func() {
			k, err := ferry.CopyParts(ctx, s, []ferry.ReadPart{{Src: src, Dst: memory}}, nil)
			wantError(t, err, context.Canceled, "part 1 of 1")
			e, _ := errors.AsType[*ferry.PartError](err)
			if k > at || e == nil || e.Byte != k {
				t.Errorf("%d bytes, %+v", k, e)
			}
			got := make([]byte, n)
			check(t, ferry.Copy(s, ferry.Pageable(got), memory))
			wantBytes(t, got[:k], want[:k])
		})
		check(t, closer.Close())
		close(release)
	}
	device := must(ferry.Alloc[byte](g, n))(t)
	ctx, cancel := context.WithTimeout(t.Context(), shortWait)
	defer cancel()
	stuck := make(hanging)
	ends(t, "CopyPartsTo", func() {
		wantError(t, last(ferry.CopyPartsTo(ctx, s, stuck, []ferry.Memory[byte]{device}, nil)), context.DeadlineExceeded, "part 1 of 1")
	})
	close(stuck)
	ends(t, "Close", func() { closeAll(t, device, s, g) })
}

// TestCopyPartsCounts: a ReadAt that returns a wrong number of bytes is an error. One that returns
// fewer bytes without an error is called again, and one that returns none is an error.
func TestCopyPartsCounts(t *testing.T) {
	sample.SkipRace(t)
	const n = 200_000
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	want := make([]byte, n)
	fillRandom(want)
	for _, m := range []ferry.Memory[byte]{must(ferry.Alloc[byte](g, n))(t), ferry.Pageable(make([]byte, n))} {
		for what, c := range map[string]struct {
			src  readAt
			part string
			is   error
		}{
			"-1":       {func([]byte, int64) (int, error) { return -1, nil }, "the reader or writer is wrong", nil},
			"one more": {func(p []byte, _ int64) (int, error) { return len(p) + 1, nil }, "the reader or writer is wrong", nil},
			"none":     {func([]byte, int64) (int, error) { return 0, nil }, "byte 0", io.ErrNoProgress},
			"few":      {func(p []byte, off int64) (int, error) { return copy(p[:min(len(p), 777)], want[off:]), nil }, "", nil},
			"all, EOF": {func(p []byte, off int64) (int, error) { return copy(p, want[off:]), io.EOF }, "", nil},
		} {
			k, err := ferry.CopyParts(t.Context(), s, []ferry.ReadPart{{Src: c.src, Dst: m}}, nil)
			if c.part == "" {
				if check(t, err); k != n {
					t.Errorf("%s: %d bytes", what, k)
				}
				wantBytes(t, must(ferry.Download(m))(t), want)
			} else if err == nil || !strings.Contains(err.Error(), c.part) || k != 0 || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%s: %d bytes, %v", what, k, err)
			}
		}
		if c, ok := m.(io.Closer); ok {
			closeAll(t, c)
		}
	}
	closeAll(t, s)
}

// TestCopyPartsAligned: every read begins at a multiple of 4096 in the source and in memory, and has
// a multiple of that many bytes, as O_DIRECT demands. No byte of the source is read twice, though
// parts share bytes, and gaps of more than 64 KiB are not read.
func TestCopyPartsAligned(t *testing.T) {
	sample.SkipRace(t)
	const size = 6 << 20
	g := must(ferry.OpenDriver(&gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	device := must(ferry.Alloc[byte](g, 4<<20))(t)
	want := make([]byte, size)
	fillRandom(want)
	var read, bad atomic.Int64
	src := new(readAt) // a pointer, so that parts with it have one source
	*src = readAt(func(p []byte, off int64) (int, error) {
		read.Add(int64(len(p)))
		if off%4096 != 0 || len(p)%4096 != 0 || uint64(address.Device(address.Of(p)))%4096 != 0 {
			bad.Add(1)
		}
		if off >= size {
			return 0, io.EOF
		}
		n := copy(p, want[off:])
		if n < len(p) {
			return n, io.EOF
		}
		return n, nil
	})
	var parts []ferry.ReadPart
	var sources [][2]int
	for at, off := 0, 9; off+2000 < size && at+70_000 < 4<<20; at += 70_000 { // neighbours, overlaps, small gaps
		n := 1 + (at/7)%70_000
		n = min(n, size-off)
		parts = append(parts, ferry.ReadPart{Src: src, Off: int64(off), Dst: device.Range(at, at+n)})
		sources = append(sources, [2]int{off, n})
		off += max(1, n-1000)
	}
	end := sources[len(sources)-1][0] + sources[len(sources)-1][1]
	must(ferry.CopyParts(t.Context(), s, parts, nil))(t)
	if bad.Load() != 0 || read.Load() > int64(end+2*4096) {
		t.Errorf("%d reads are not aligned; %d bytes were read of %d", bad.Load(), read.Load(), end)
	}
	got := must(ferry.Download(device))(t)
	for i, x := range sources {
		wantBytes(t, got[i*70_000:][:x[1]], want[x[0]:][:x[1]])
	}
	read.Store(0)
	far := []ferry.ReadPart{{Src: src, Off: size - 100, Dst: device.Range(0, 100)}, {Src: src, Off: 100, Dst: device.Range(100, 200)}}
	must(ferry.CopyParts(t.Context(), s, far, nil))(t)
	if read.Load() > 3*4096 || bad.Load() != 0 {
		t.Errorf("%d bytes were read for two parts far apart", read.Load())
	}
	got = must(ferry.Download(device.Range(0, 200)))(t)
	wantBytes(t, got, append(bytes.Clone(want[size-100:]), want[100:200]...))
	closeAll(t, device, s, g)
}

// TestCopyPartsBusyRing: if other transfers have all slots, the parts go another way, with their
// hashes, and to the memory in Also.
func TestCopyPartsBusyRing(t *testing.T) {
	g := openTest(t)
	blocked, s := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	const n, count = 72 << 20, 60
	device, other, also := must(ferry.Alloc[byte](g, n))(t), must(ferry.Alloc[byte](g, n))(t), must(ferry.Alloc[byte](g, n))(t)
	want, all := make([]byte, n), make([]byte, n)
	fillRandom(want)
	check(t, ferry.Copy(s, ferry.Pageable(all), device)) // allocates all slots
	check(t, g.Wait(t.Context()))
	open := gate(t, blocked)
	done := make(chan error, 1)
	go func() { done <- ferry.Copy(blocked, ferry.Pageable(all), device) }()
	time.Sleep(shortWait) // by then it has all slots, and waits
	var parts []ferry.ReadPart
	var memory []ferry.Memory[byte]
	sums := make([]hash.Hash32, 2*count)
	o := &ferry.PartsOptions{Hash: func(i int) hash.Hash { sums[i] = crc32.NewIEEE(); return sums[i] }}
	for i := range count {
		from, to := i*(n/count), (i+1)*(n/count)
		parts = append(parts, ferry.ReadPart{Src: bytes.NewReader(want), Off: int64(from), Dst: other.Range(from, to), Also: []ferry.Memory[byte]{also.Range(from, to)}})
		memory = append(memory, other.Range(from, to))
	}
	var got bytes.Buffer
	copied := make(chan error, 1)
	go func() {
		copied <- errors.Join(last(ferry.CopyParts(t.Context(), s, parts, o)), last(ferry.CopyPartsTo(t.Context(), s, &got, memory, nil)))
	}()
	select {
	case err := <-copied:
		check(t, err)
	case <-time.After(timeout):
		t.Fatal("the parts wait for the blocked stream")
	}
	open()
	check(t, <-done)
	end := n / count * count
	wantBytes(t, got.Bytes(), want[:end])
	wantBytes(t, must(ferry.Download(also.Range(0, end)))(t), want[:end])
	for i := range count {
		if sum := crc32.ChecksumIEEE(want[i*(n/count):][:n/count]); sums[i].Sum32() != sum {
			t.Errorf("part %d has the wrong hash", i)
		}
	}
	closeAll(t, device, other, also, blocked, s)
}

// TestCopyPartsTwoGPUs: parts for two GPUs in one call, and each also for the other GPU, with and
// without peer access.
func TestCopyPartsTwoGPUs(t *testing.T) {
	gputest.NeedsH200(t, "its peer access")
	onTwoGPUs(t, testPartsTwoGPUs)
	for _, schedule := range []softgpu.Schedule{softgpu.Lazy, softgpu.Random} { // the copies between devices run late
		t.Run(fmt.Sprint("schedule=", schedule), func(t *testing.T) {
			d := softDriver(t, "h200", 2, schedule)
			a, b := must(ferry.OpenDriver(d, 0))(t), must(ferry.OpenDriver(d, 1))(t)
			testPartsTwoGPUs(t, a, b)
			closeAll(t, a, b)
			for from, to := range []cu.Device{1, 0} { // a stream that is not closed keeps peers open, for other tests of hardware, too
				pool := must(d.DeviceGetDefaultMemPool(cu.Device(from)))(t)
				access := must(d.MemPoolGetAccess(pool, &cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(to)}))(t)
				if access != cu.MemAccessProtNone {
					t.Errorf("device %d has access %d to the default pool of device %d after Close", to, access, from)
				}
			}
		})
	}
}

func testPartsTwoGPUs(t *testing.T, a, b *ferry.GPU) {
	s := must(ferry.NewStream(a, nil))(t)
	const n, count = 250_000, 24
	var memory [4]*ferry.Device[byte] // on a, on b, and the copies on the other one and on the same
	for i := range memory {
		memory[i] = must(ferry.Alloc[byte]([]*ferry.GPU{a, b}[i%2], n*count))(t)
	}
	for _, peers := range []bool{false, true} {
		if peers {
			check(t, a.EnablePeer(b))
		}
		want := make([]byte, 2*n*count)
		fillRandom(want)
		for _, m := range memory {
			check(t, ferry.Fill(m.GPU().DefaultStream(), m, 0xee))
			check(t, m.Wait(t.Context()))
		}
		var parts []ferry.ReadPart
		for i := range 2 * count {
			of := i % 2
			r := func(m *ferry.Device[byte]) ferry.Memory[byte] { return m.Range(i/2*n, (i/2+1)*n) }
			p := ferry.ReadPart{Src: bytes.NewReader(want), Off: int64((i/2 + of*count) * n), Dst: r(memory[of])}
			if of == 0 {
				p.Also = []ferry.Memory[byte]{r(memory[3]), r(memory[2])}
			}
			parts = append(parts, p)
		}
		k, err := ferry.CopyParts(t.Context(), s, parts, nil)
		if check(t, err); k != 2*n*count {
			t.Errorf("%d bytes, want %d", k, 2*n*count)
		}
		for i, half := range [][]byte{want[:n*count], want[n*count:], want[:n*count], want[:n*count]} {
			if got := must(ferry.Download(memory[i]))(t); !bytes.Equal(got, half) {
				t.Errorf("peers %t: memory %d has other bytes", peers, i)
			}
		}
	}
	closeAll(t, memory[0], memory[1], memory[2], memory[3], s)
}

// copyCounter counts the copies to a device.
type copyCounter struct {
	cu.Driver
	copies atomic.Int64
}

func (d *copyCounter) Unwrap() cu.Driver { return d.Driver }

func (d *copyCounter) MemcpyBatchAsync(ctx cu.Context, dst, src []cu.DevicePtr, bytes []uintptr, s cu.Stream) error {
	d.copies.Add(int64(len(dst)))
	return d.Driver.MemcpyBatchAsync(ctx, dst, src, bytes, s)
}

func (d *copyCounter) Submit(ctx cu.Context, b *cu.Batch) (int, error) {
	d.copies.Add(int64(b.Len()))
	return d.Driver.Submit(ctx, b)
}

// TestCopyPartsMany: many small parts that continue each other in the source and in memory are few
// copies. A part costs no allocation of its own.
func TestCopyPartsMany(t *testing.T) {
	gputest.NeedsH200(t, "its allocations")
	sample.SkipRace(t)
	const n, count = 64, 20_000
	d := &copyCounter{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := must(ferry.OpenDriver(d, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	device := must(ferry.Alloc[byte](g, n*count))(t)
	want := make([]byte, n*count)
	fillRandom(want)
	src := bytes.NewReader(want)
	parts := make([]ferry.ReadPart, count)
	for i := range parts {
		k := (i * 7919) % count
		parts[i] = ferry.ReadPart{Src: src, Off: int64(k * n), Dst: device.Range(k*n, (k+1)*n)}
	}
	d.copies.Store(0)
	must(ferry.CopyParts(t.Context(), s, parts, nil))(t)
	if k := d.copies.Load(); k > 40 {
		t.Errorf("%d copies for %d parts that continue each other", k, count)
	}
	wantBytes(t, must(ferry.Download(device))(t), want)
	if racebuild.Instrumented {
		closeAll(t, device, s, g)
		return
	}
	var none context.Context // which never ends
	if allocs := testing.AllocsPerRun(3, func() { _, _ = ferry.CopyParts(none, s, parts, nil) }); allocs > 200 {
		t.Errorf("%g allocations for %d parts", allocs, count)
	}
	closeAll(t, device, s, g)
}

// TestCloseInSource: a source closes the memory of its own part. Close is refused, and the call frees
// the memory when it returns.
func TestCloseInSource(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	want := make([]byte, 100_000)
	for _, m := range []interface {
		ferry.Memory[byte]
		io.Closer
	}{must(ferry.Alloc[byte](g, len(want)))(t), must(ferry.AllocHost[byte](g, len(want), nil))(t)} {
		src := readAt(func(p []byte, off int64) (int, error) {
			if off == 0 {
				wantError(t, m.Close(), cu.ErrorNotReady, "CopyParts")
			}
			return copy(p, want[off:]), io.EOF
		})
		ends(t, "CopyParts", func() {
			check(t, last(ferry.CopyParts(t.Context(), s, []ferry.ReadPart{{Src: src, Dst: m}, {Src: src, Off: 10, Dst: ferry.Pageable(make([]byte, 5))}}, nil)))
		})
		wantError(t, ferry.Copy(s, ferry.Memory[byte](m), ferry.Memory[byte](ferry.Pageable(want))), ferry.ErrClosed)
	}
	closeAll(t, s)
}

// BenchmarkCopyParts fills memory from a source in memory, in parts that continue each other and in
// parts that do not.
func BenchmarkCopyParts(b *testing.B) {
	const bytesOfAll = 64 << 20
	g := must(ferry.OpenDriver(&gputest.Holding{Driver: softDriver(b, "h200", 1, softgpu.Eager)}, 0))(b)
	s := must(ferry.NewStream(g, nil))(b)
	device := must(ferry.Alloc[byte](g, bytesOfAll))(b)
	src := bytes.NewReader(make([]byte, bytesOfAll))
	check(b, g.Staging().Warm(b.Context()))
	for _, count := range []int{1, 16, 256, 4096, 100_000} {
		for _, reversed := range []bool{false, true} {
			n := bytesOfAll / count
			parts := make([]ferry.ReadPart, count)
			for i := range parts {
				to := i
				if reversed {
					to = count - 1 - i
				}
				parts[i] = ferry.ReadPart{Src: src, Off: int64(i * n), Dst: device.Range(to*n, (to+1)*n)}
			}
			b.Run(fmt.Sprintf("parts=%d/reversed=%t", count, reversed), func(b *testing.B) {
				b.SetBytes(int64(count * n))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := ferry.CopyParts(b.Context(), s, parts, nil); err != nil {
						b.Fatal(err)
					}
				}
				check(b, s.Wait(b.Context()))
			})
		}
	}
	closeAll(b, device, s, g)
}
