package simt

import (
	"bytes"
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/internal/test/workload"
)

// looseMemory makes all memory of the tests mapped memory.
func looseMemory(forward bool) *Mapped {
	return &Mapped{Ranges: []AddressRange{{1 << 30, 1 << 60}}, Stale: true, Hold: true, Forward: forward, Atomics: &HeldAtomics{}}
}

// TestMappedChangesNothing runs kernels with and without loose memory. The bytes at the end
// and all that the predicted time depends on are the same.
func TestMappedChangesNothing(t *testing.T) {
	for i, w := range workload.Small() {
		for _, forward := range []bool{false, true} {
			plain, a := launchOf(t, workload.Small()[i]) // with its own bytes
			loose, b := launchOf(t, workload.Small()[i])
			loose.Mapped = looseMemory(forward)
			plain.Workers, loose.Workers = 1, 1
			want, got := mustRun(t, plain), mustRun(t, loose)
			got.Stale = nil // a repeated load whose memory another thread has changed
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: the statistics differ:\n%+v\n%+v", w.Kernel, got, want)
			}
			for i := range a {
				if !bytes.Equal(a[i].Data, b[i].Data) {
					t.Errorf("%s: buffer %d differs", w.Kernel, i)
				}
			}
		}
	}
}

// TestMappedKeepsOrder runs the tests of kernels whose threads wait for each other, and of
// atomic operations, in loose memory. The tests are drawn.
func TestMappedKeepsOrder(t *testing.T) {
	tests := map[string]func(*testing.T){
		"Lock": TestLock, "GridBarrier": TestGridBarrier, "NamedBarriers": TestNamedBarriers,
		"WarpBarrier": TestWarpBarrier, "LateLanes": TestLateLanes,
		"CooperativeMemory": TestCooperativeMemory, "CheckCorpus": TestCheckCorpus, "MbarrierRounds": TestMbarrierRounds,
		"Atomics": TestAtomics, "AtomicTypes": TestAtomicTypes, "Vectors": TestVectors, "NarrowAccess": TestNarrowAccess,
		"AsyncCopy": TestAsyncCopy, "Histogram": TestHistogram, "ReduceShared": TestReduceShared, "Transpose": TestTranspose,
		"Traffic": TestTraffic, "ScatteredTraffic": TestScatteredTraffic, "Pages": TestPages, "PageOrder": TestPageOrder,
		"OutOfBounds": TestOutOfBounds, "Misaligned": TestMisaligned, "ReadOnlySegment": TestReadOnlySegment,
		"Shuffles": TestShuffles, "Structs": TestStructs, "Globals": TestGlobals,
	}
	for _, name := range sample.Of(t, slices.Sorted(maps.Keys(tests)), 8) {
		test := tests[name]
		t.Run(name, func(t *testing.T) {
			mappedForTests.Store(looseMemory(false))
			defer mappedForTests.Store(nil)
			test(t)
		})
	}
}

const storePTX = `.version 7.0
.target sm_75
.address_size 64
.visible .entry weak(.param .u64 p) {
	.reg .u64 %a;
	ld.param.u64 %a, [p];
	st.global.u32 [%a], 100;
	ret;
}
.visible .entry strong(.param .u64 p) {
	.reg .u64 %a;
	ld.param.u64 %a, [p];
	st.volatile.global.u32 [%a], 100;
	ret;
}
`

// add adds 1 to the 32-bit word of a segment, after it has read it and during has run.
func (a *HeldAtomics) add(s *Segment, during func()) {
	a.update(func(p uintptr, _, _ uint64) uint64 {
		v := load32(word32(p))
		during()
		writeBytes(p, 0xf, uint64(v)+1)
		return uint64(v)
	}, placeOf(s.Data, 0), 4, 0, 0, hostAccess{x: &execution{l: &Launch{}}})
}

// TestHeldAtomicsLoseNoStore lets a kernel store to a word while an update that has read it
// is not done yet. The store is later, so it remains.
func TestHeldAtomicsLoseNoStore(t *testing.T) {
	for _, c := range []struct {
		kernel string
		hold   bool
	}{{"weak", false}, {"weak", true}, {"strong", true}} {
		mem := newSpace()
		m := load(t, mem, "store.ptx", storePTX)
		word := put(mem, make([]uint32, 2))
		l, a := m.launch(t, c.kernel, 1, 1, word), &HeldAtomics{}
		l.Mapped = &Mapped{Ranges: []AddressRange{{word.Base, word.Base + 8}}, Hold: c.hold, Atomics: a}
		ended := make(chan error)
		a.add(word, func() {
			go func() {
				_, err := Run(context.Background(), l)
				ended <- err
			}()
			time.Sleep(20 * time.Millisecond) // a store that does not wait comes now
		})
		a.writeAll()
		if err := <-ended; err != nil || valuesOf[uint32](word.Data)[0] != 100 {
			t.Errorf("%+v: the word is %d (%v)", c, valuesOf[uint32](word.Data)[0], err)
		}
	}
}

// TestHeldAtomicsAreRead writes a word between the read of memory and what is seen of it.
func TestHeldAtomicsAreRead(t *testing.T) {
	word := put(newSpace(), make([]uint32, 2))
	a, p := &HeldAtomics{}, placeOf(word.Data, 0)
	h := &mappedView{Mapped: &Mapped{Atomics: a}}
	a.add(word, func() {})
	atomics, raw := a.any(), readWord(p, 4)
	a.writeAll()
	if v := h.visible(new(block), p, 4, raw, atomics); v != 1 {
		t.Errorf("read %d after an update to 1", v)
	}
}

// TestHeldAtomicsAreWritten: a launch that ends waits until another launch has written its
// words.
func TestHeldAtomicsAreWritten(t *testing.T) {
	word := put(newSpace(), make([]uint32, 2))
	a, x, ended := &HeldAtomics{}, &execution{l: &Launch{}}, make(chan struct{})
	a.add(word, func() {})
	p := placeOf(word.Data, 0)
	a.words[p].by = hostAccess{x: x}
	writeBytes(p, 0xf, 7) // as the host: the writer waits for mu to report that
	x.mu.Lock()
	go func() {
		a.writeAll()
		close(ended)
	}()
	for a.mu.TryLock() {
		a.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	if !a.any() {
		t.Error("the word is not in memory, and a launch would end")
	}
	x.mu.Unlock()
	if <-ended; a.any() || readWord(p, 4) != 1 {
		t.Errorf("held: %v, the word is %d", a.any(), readWord(p, 4))
	}
}

const messagePTX = `.version 7.0
.target sm_75
.address_size 64
.visible .entry message(.param .u64 p) {
	.reg .u64 %a;
	.reg .u32 %x, %b, %t;
	.reg .pred %p;
	ld.param.u64 %a, [p];
	mov.u32 %b, %ctaid.x;
	mov.u32 %t, %tid.x;
	mov.u32 %x, 7;
	setp.ne.u32 %p, %b, 0;
	@%p bra writer;
	ld.global.u32 %x, [%a];
wait:
	ld.acquire.gpu.global.u32 %x, [%a+64];
	setp.eq.u32 %p, %x, 0;
	@%p bra wait;
	ld.global.u32 %x, [%a];
	st.global.u32 [%a+128], %x;
	ret;
writer:
	setp.ne.u32 %p, %t, 63;
	@%p bra stored;
	st.global.u32 [%a], %x;
	BEFORE
stored:
	bar.sync 0;
	setp.ne.u32 %p, %t, 0;
	@%p bra done;
	FLAG
done:
	ret;
}
`

// TestMappedMessages sends data of one thread to another block, behind a flag that a second
// thread sets. Block 0 has read the old data before.
func TestMappedMessages(t *testing.T) {
	for _, form := range []struct{ before, flag string }{
		{"membar.gl;", "st.volatile.global.u32 [%a+64], %x;"},
		{"fence.acq_rel.sys;", "atom.global.exch.b32 %x, [%a+64], %x;"},
		{"", "membar.sys; st.volatile.global.u32 [%a+64], %x;"},
		{"", "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%a+64], %x;"},
		{"", "st.release.gpu.global.u32 [%a+64], %x;"},
		{"", "red.release.gpu.global.add.u32 [%a+64], %x;"},
	} {
		for workers := range 2 {
			mem := newSpace()
			m := load(t, mem, "message.ptx", strings.NewReplacer("BEFORE", form.before, "FLAG", form.flag).Replace(messagePTX))
			words := put(mem, make([]uint32, 64))
			l := m.launch(t, "message", 2, 64, words)
			l.Workers, l.Mapped = 1+workers, looseMemory(false)
			mustRun(t, l)
			if got := valuesOf[uint32](words.Data)[32]; got != 7 {
				t.Errorf("%q, %q, %d workers: block 0 read %d, want 7", form.before, form.flag, l.Workers, got)
			}
		}
	}
}
