package simt

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/ferrygpu/ferry/internal/workload"
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
			plain, a := launchOf(t, workload.Small()[i]) // each with its own bytes
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
// atomic operations, in loose memory.
func TestMappedKeepsOrder(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"Lock": TestLock, "GridBarrier": TestGridBarrier, "NamedBarriers": TestNamedBarriers,
		"WarpBarrier": TestWarpBarrier, "LateLanes": TestLateLanes,
		"CooperativeMemory": TestCooperativeMemory, "CheckCorpus": TestCheckCorpus, "MbarrierRounds": TestMbarrierRounds,
		"Atomics": TestAtomics, "AtomicTypes": TestAtomicTypes, "Vectors": TestVectors, "NarrowAccess": TestNarrowAccess,
		"AsyncCopy": TestAsyncCopy, "Histogram": TestHistogram, "ReduceShared": TestReduceShared, "Transpose": TestTranspose,
		"Traffic": TestTraffic, "ScatteredTraffic": TestScatteredTraffic, "Pages": TestPages, "PageOrder": TestPageOrder,
		"OutOfBounds": TestOutOfBounds, "Misaligned": TestMisaligned, "ReadOnlySegment": TestReadOnlySegment,
		"Shuffles": TestShuffles, "Structs": TestStructs, "Globals": TestGlobals,
	} {
		t.Run(name, func(t *testing.T) {
			mappedForTests.Store(looseMemory(false))
			defer mappedForTests.Store(nil)
			test(t)
		})
	}
}
