package simt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/internal/test/workload"
)

// seedsVariable is how many seeds the tests of this file use where a few are enough in each
// run. ".ci/long seeds" sets it.
const seedsVariable = "FERRY_TEST_SEEDS"

// seeds returns how many seeds a test runs.
func seeds(t *testing.T, few int) uint64 {
	t.Helper()
	text := os.Getenv(seedsVariable)
	if text == "" {
		return uint64(few)
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("%s: %v", seedsVariable, err)
	}
	return n
}

// seedsForRaces is the number of seeds within which a race that the order of blocks or warps
// hides must be found. docs/notes/checks.md names it.
const seedsForRaces = 16

// shuffled runs a kernel of a corpus with the check under a seed, 0 for the fixed order.
func shuffled(t *testing.T, m *module, name string, seed uint64) ([]Finding, error) {
	t.Helper()
	l := corpusLaunch(t, m, name)
	if seed > 0 {
		l.Shuffle = &Shuffle{Seed: seed}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := Run(ctx, l)
	return s.Findings, err
}

// shows reports whether a run of a wrong kernel shows the fault: by a finding, or by a fault
// of the kernel, as where a barrier object is used before it is made.
func shows(t *testing.T, m *module, name string, seed uint64) bool {
	t.Helper()
	found, err := shuffled(t, m, name, seed)
	if _, fault := errors.AsType[*cu.Fault](err); err != nil && !fault {
		t.Errorf("%s under seed %d: %v", name, seed, err)
	}
	return err != nil || len(found) > 0
}

// kernelNames returns the kernels of a module whose names have a prefix, in order.
func kernelNames(m *module, prefix string) (names []string) {
	for name := range m.kernels {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestHiddenRaces finds races that the fixed order of blocks and warps hides.
func TestHiddenRaces(t *testing.T) {
	m := loadFile(t, newSpace(), "orders/orders.ptx")
	names := kernelNames(m, "racy_")
	if len(names) < 7 {
		t.Fatalf("%d kernels", len(names))
	}
	for _, name := range names {
		if shows(t, m, name, 0) {
			t.Errorf("%s: the fixed order shows the race", name)
		}
		found := 0
		for seed := range uint64(seedsForRaces) {
			if shows(t, m, name, seed+1) {
				found++
			}
		}
		t.Logf("%s: found under %d of %d seeds", name, found, seedsForRaces)
		if found == 0 {
			t.Errorf("%s: no race under %d seeds", name, seedsForRaces)
		}
	}
}

// TestShuffledCorpora runs the correct kernels of the corpora under many orders: no finding.
// The wrong ones must be found under one of them.
func TestShuffledCorpora(t *testing.T) {
	sample.SkipRace(t)
	files, err := filepath.Glob("testdata/races/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatal("no kernels", err)
	}
	few, runs := sample.Count(3, 12), 0
	if racebuild.Instrumented {
		few = 3
	}
	n := seeds(t, few)
	for _, file := range append(files, "testdata/orders/orders.ptx") {
		m := loadFile(t, newSpace(), strings.TrimPrefix(filepath.ToSlash(file), "testdata/"))
		for _, name := range kernelNames(m, "ok_") {
			for seed := range n {
				runs++
				if found, err := shuffled(t, m, name, seed+1); err != nil || len(found) > 0 {
					t.Errorf("%s under seed %d: %v, %+v", name, seed+1, err, found)
				}
			}
		}
		for _, name := range kernelNames(m, "racy_") {
			found := false
			for seed := uint64(1); seed <= seedsForRaces && !found; seed++ {
				runs++
				found = shows(t, m, name, seed)
			}
			if !found {
				t.Errorf("%s: no race under %d seeds", name, seedsForRaces)
			}
		}
	}
	t.Logf("%d runs", runs)
}

// TestShuffledResults: kernels whose result does not depend on the order have the same bytes,
// and the same number of instructions, under every seed.
func TestShuffledResults(t *testing.T) {
	for i, w := range workload.Small() {
		plain, want := launchOf(t, w)
		stats := mustRun(t, plain)
		for seed := range seeds(t, 4) {
			l, got := launchOf(t, workload.Small()[i]) // with its own bytes
			l.Shuffle = &Shuffle{Seed: seed}
			if s := mustRun(t, l); s.WarpInstructions != stats.WarpInstructions || s.Blocks != stats.Blocks || !reflect.DeepEqual(s.Traffic, stats.Traffic) {
				t.Errorf("%s under seed %d: %d instructions, %d in the fixed order, or other traffic", w.Kernel, seed, s.WarpInstructions, stats.WarpInstructions)
			}
			for i := range want {
				if !bytes.Equal(got[i].Data, want[i].Data) {
					t.Errorf("%s under seed %d: buffer %d differs", w.Kernel, seed, i)
				}
			}
		}
	}
}

// orderSource notes the order in which warps come: each adds 1 to a counter twice, and writes
// its number at the place that it got. In between is a barrier.
const orderSource = `.version 8.0
.target sm_75
.address_size 64
.visible .entry come(.param .u64 count, .param .u64 list) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p<3>;
	ld.param.u64 %rd1, [count];
	ld.param.u64 %rd2, [list];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mad.lo.u32 %r1, %r2, %r3, %r1;
	mov.u32 %r4, 0;
again:
	atom.global.add.u32 %r5, [%rd1], 1;
	mul.wide.u32 %rd3, %r5, 4;
	add.u64 %rd3, %rd2, %rd3;
	st.global.u32 [%rd3], %r1;
	bar.sync 0;
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %p1, %r4, 2;
	@%p1 bra again;
	ret;
}

// The first lane of each warp does this three times, without a loop or a barrier.
.visible .entry steps(.param .u64 count, .param .u64 list) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p<3>;
	ld.param.u64 %rd1, [count];
	ld.param.u64 %rd2, [list];
	mov.u32 %r1, %tid.x;
	and.b32 %r2, %r1, 31;
	setp.ne.u32 %p1, %r2, 0;
	@%p1 exit;
	shr.u32 %r1, %r1, 5;
	mov.u32 %r2, %ctaid.x;
	add.u32 %r1, %r1, %r2;
	atom.global.add.u32 %r5, [%rd1], 1;
	mad.wide.u32 %rd3, %r5, 4, %rd2;
	st.global.u32 [%rd3], %r1;
	atom.global.add.u32 %r5, [%rd1], 1;
	mad.wide.u32 %rd3, %r5, 4, %rd2;
	st.global.u32 [%rd3], %r1;
	atom.global.add.u32 %r5, [%rd1], 1;
	mad.wide.u32 %rd3, %r5, 4, %rd2;
	st.global.u32 [%rd3], %r1;
	ret;
}`

// TestShuffledSteps: two blocks, and two warps of a block, come in either order, and one may
// come between two atomic operations of the other.
func TestShuffledSteps(t *testing.T) {
	mem := newSpace()
	m := load(t, mem, "order.ptx", orderSource)
	for _, shape := range [][2]int{{2, 32}, {1, 64}} {
		orders := map[string]int{}
		for seed := range uint64(100) {
			list := put(mem, make([]uint32, 6))
			l := m.launch(t, "steps", shape[0], shape[1], put(mem, make([]uint32, 1)), list)
			l.Shuffle = &Shuffle{Seed: seed}
			within(t, l)
			orders[fmt.Sprint(valuesOf[uint32](list.Data))]++
		}
		if orders["[0 0 0 1 1 1]"] == 0 || orders["[1 1 1 0 0 0]"] == 0 || len(orders) < 8 {
			t.Errorf("%d blocks of %d threads: the orders are %v", shape[0], shape[1], orders)
		}
	}
}

// TestShuffledBlocks: all blocks of a window begin before the next window does, in an order
// that the seed decides. Each comes first under some seed.
func TestShuffledBlocks(t *testing.T) {
	first := map[uint64]bool{}
	for seed := range uint64(200) {
		x := &execution{l: &Launch{Shuffle: &Shuffle{Seed: seed}}, resident: 64, blocks: 70}
		s := newShuffler(x)
		var order []uint64
		for n := range x.blocks {
			order = append(order, s.block(n, x.blocks))
		}
		first[order[0]] = true
		for len(order) > 0 {
			at := x.blocks - uint64(len(order))
			part := slices.Sorted(slices.Values(order[:min(s.window, uint64(len(order)))]))
			for i, n := range part {
				if n != at+uint64(i) {
					t.Fatalf("seed %d: the window at block %d has %v", seed, at, part)
				}
			}
			order = order[len(part):]
		}
	}
	if len(first) < 30 {
		t.Errorf("%d blocks came first", len(first))
	}
}

// come returns the order of threads under a seed, and what the check found.
func come(t *testing.T, shuffle *Shuffle) ([]uint32, string) {
	t.Helper()
	mem := newSpace()
	m := load(t, mem, "order.ptx", orderSource)
	const blocks, threads = 40, 96
	list := put(mem, make([]uint32, 2*blocks*threads))
	l := m.launch(t, "come", blocks, threads, put(mem, make([]uint32, 1)), list)
	l.Shuffle = shuffle
	s := within(t, l)
	checked := put(mem, make([]uint32, 2*blocks*threads))
	l = m.launch(t, "come", blocks, threads, put(mem, make([]uint32, 1)), checked)
	l.Shuffle, l.Check = shuffle, true
	within(t, l)
	if !bytes.Equal(list.Data, checked.Data) {
		t.Errorf("%+v: the order with the check differs from that without", *shuffle)
	}
	var found []string
	races := loadFile(t, newSpace(), "orders/orders.ptx")
	for _, name := range kernelNames(races, "racy_") {
		r := corpusLaunch(t, races, name)
		r.Shuffle = shuffle
		found = append(found, fmt.Sprintf("%+v", within(t, r).Findings))
	}
	return valuesOf[uint32](list.Data), fmt.Sprintf("%d %+v %+v", s.WarpInstructions, s.Findings, found)
}

// TestShuffleFollowsSeed: the order is that of the seed alone, on any number of cores, and
// with and without the check.
func TestShuffleFollowsSeed(t *testing.T) {
	sample.SkipRace(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	orders := map[string]bool{}
	for seed := range uint64(6) {
		var want []uint32
		var found string
		for _, cores := range []int{1, 2, 8} {
			runtime.GOMAXPROCS(cores)
			got, text := come(t, &Shuffle{Seed: seed})
			if want == nil {
				want, found = got, text
			}
			if !slices.Equal(got, want) || text != found {
				t.Errorf("seed %d: the order or the findings on %d cores differ from those on 1", seed, cores)
			}
		}
		orders[fmt.Sprint(want)] = true
		other, _ := come(t, &Shuffle{Seed: seed, Launch: 1})
		orders[fmt.Sprint(other)] = true
	}
	if len(orders) != 12 {
		t.Errorf("12 seeds and launches have %d orders", len(orders))
	}
}

// TestShuffledOrders: over some seeds each block of a small grid begins first, and each warp
// of a block comes first.
func TestShuffledOrders(t *testing.T) {
	mem := newSpace()
	m := load(t, mem, "order.ptx", orderSource)
	const blocks, warps = 4, 3
	first := map[uint32]bool{}
	interleaved := 0
	for seed := range uint64(200) {
		list := put(mem, make([]uint32, 2*blocks*warps*warpSize))
		l := m.launch(t, "come", blocks, warps*warpSize, put(mem, make([]uint32, 1)), list)
		l.Shuffle = &Shuffle{Seed: seed}
		within(t, l)
		order := valuesOf[uint32](list.Data)
		first[order[0]/warpSize] = true
		changes := 0
		for i := warpSize; i < len(order); i += warpSize {
			if order[i]/(warps*warpSize) != order[i-1]/(warps*warpSize) {
				changes++
			}
		}
		if changes >= blocks {
			interleaved++
		}
	}
	if len(first) != blocks*warps {
		t.Errorf("%d of %d warps came first", len(first), blocks*warps)
	}
	if interleaved < 50 || interleaved > 190 {
		t.Errorf("blocks ran at once under %d of 200 seeds", interleaved)
	}
}

// TestShuffledProgress runs kernels whose threads wait for each other: all end.
func TestShuffledProgress(t *testing.T) {
	sample.SkipRace(t)
	eachWay(t, progressSource, func(t *testing.T, m *module) {
		for seed := range seeds(t, 4) {
			lock, sum := put(m.mem, []int32{0}), put(m.mem, []int32{0})
			count, out := put(m.mem, []int32{0}), put(m.mem, []int32{0})
			flag := put(m.mem, []int32{0})
			for _, l := range []*Launch{
				m.launch(t, "locked", 3, 70, lock, sum),
				m.launch(t, "grid_barrier", 100, 64, count, out),
				m.launch(t, "across_warps", 1, 256, flag),
			} {
				l.Shuffle = &Shuffle{Seed: seed}
				if s := within(t, l); s.WarpInstructions > 1e6 {
					t.Errorf("%s under seed %d: %d instructions: the threads that wait kept the others from running", l.Kernel.Name, seed, s.WarpInstructions)
				}
			}
			if got := valuesOf[int32](sum.Data)[0]; got != 210 {
				t.Errorf("seed %d: the sum under the lock is %d, want 210", seed, got)
			}
			if got := valuesOf[int32](out.Data)[0]; got != 6400 {
				t.Errorf("seed %d: %d threads passed the barrier, want 6400", seed, got)
			}
		}
	})
}

// restSource has kernels whose first warp spins by plain loads, which are no polls, until the
// second has stored a flag. Before that the second sleeps, or polls by strong loads, n times,
// and works after each time. The first gives up after 1<<20 loads, so that every kernel ends,
// and stores 1 if it has seen the flag. Parameters: flag, n, seen.
var restSource = `.version 8.0
.target sm_75
.address_size 64
` + restKernel("slept_fence", "nanosleep.u32 100;", "membar.gl;") +
	restKernel("slept_plain", "nanosleep.u32 100;", "") +
	restKernel("polled_fence", "ld.volatile.global.u32 %r7, [%rd1];", "membar.gl;") +
	restKernel("polled_plain", "ld.volatile.global.u32 %r7, [%rd1];", "")

// restKernel returns a kernel of restSource. rest is what its second warp does n times, spin
// what its first does after each load.
func restKernel(name, rest, spin string) string {
	return `
.visible .entry ` + name + `(.param .u64 flag, .param .u32 n, .param .u64 seen) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p<3>;
	ld.param.u64 %rd1, [flag];
	ld.param.u32 %r6, [n];
	ld.param.u64 %rd2, [seen];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mad.lo.u32 %r1, %r2, %r3, %r1;
	mov.u32 %r4, 0;
	setp.ge.u32 %p1, %r1, 32;
	@%p1 bra second;
wait:
	ld.global.u32 %r5, [%rd1];
	` + spin + `
	setp.ne.u32 %p1, %r5, 0;
	@%p1 bra found;
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %p1, %r4, 1048576;
	@%p1 bra wait;
found:
	st.global.u32 [%rd2], %r5;
	ret;
second:
	` + rest + `
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %p1, %r4, %r6;
	@%p1 bra second;
	mov.u32 %r4, 0;
work:
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %p1, %r4, 1000;
	@%p1 bra work;
	st.global.u32 [%rd1], 1;
	ret;
}
`
}

// TestShuffledRest: a warp that sleeps or polls has a turn again after a bounded number of
// instructions, also if another warp spins without a poll.
func TestShuffledRest(t *testing.T) {
	sample.SkipRace(t)
	m := load(t, newSpace(), "rest.ptx", restSource)
	few := sample.Count(4, 16)
	if racebuild.Instrumented {
		few = 2
	}
	for _, name := range []string{"slept_fence", "slept_plain", "polled_fence", "polled_plain"} {
		for _, times := range []int{1, 4} {
			for seed := range seeds(t, few) {
				most := uint64(times+1) * 2 * restBudget
				restsFor(t, m, name, 1, times, seed, most)
				restsFor(t, m, name, 2, times, seed, most+2*shufflePatience) // the second block may begin late
			}
		}
	}
}

// restsFor runs a kernel of restSource, with its two warps in 1 or 2 blocks. The first must see
// the flag within a number of instructions.
func restsFor(t *testing.T, m *module, name string, blocks, times int, seed, most uint64) {
	t.Helper()
	seen := put(m.mem, []uint32{0})
	l := m.launch(t, name, blocks, 2*warpSize/blocks, put(m.mem, []uint32{0}), times, seen)
	l.Shuffle = &Shuffle{Seed: seed}
	s := mustRun(t, l)
	if found := valuesOf[uint32](seen.Data)[0] == 1; !found || s.WarpInstructions > most {
		t.Errorf("%s, %d rests, %d blocks, seed %d: the flag was seen: %v, after %d instructions, want at most %d",
			name, times, blocks, seed, found, s.WarpInstructions, most)
	}
}

// chainSource has blocks that each wait for the block before, as a scan in one pass does.
const chainSource = `.version 8.0
.target sm_75
.address_size 64
.visible .entry chain(.param .u64 flags) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p<3>;
	ld.param.u64 %rd1, [flags];
	mov.u32 %r1, %ctaid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd3, %rd1, %rd2;
wait:
	ld.acquire.gpu.global.u32 %r2, [%rd3];
	setp.eq.u32 %p1, %r2, 0;
	@%p1 bra wait;
	add.u32 %r2, %r2, 1;
	st.release.gpu.global.u32 [%rd3+4], %r2;
	ret;
}`

// TestShuffledChain: a block may wait for all blocks before it, however many there are.
func TestShuffledChain(t *testing.T) {
	blocks, few := maxResident+900, sample.Count(1, 3)
	if racebuild.Instrumented { // which is some 20 times slower
		blocks, few = 300, 1
	}
	mem := newSpace()
	m := load(t, mem, "chain.ptx", chainSource)
	for seed := range seeds(t, few) {
		values := make([]uint32, blocks+1)
		values[0] = 1
		flags := put(mem, values)
		l := m.launch(t, "chain", blocks, 1, flags)
		l.Shuffle = &Shuffle{Seed: seed}
		began := time.Now()
		within(t, l)
		t.Logf("seed %d: %v", seed, time.Since(began).Round(time.Millisecond))
		if got := valuesOf[uint32](flags.Data)[blocks]; got != uint32(blocks+1) {
			t.Errorf("seed %d: the last block wrote %d, want %d", seed, got, blocks+1)
		}
	}
}

// TestShuffledFaults: a fault, a deadlock and the end of the context end a launch.
func TestShuffledFaults(t *testing.T) {
	m := load(t, newSpace(), "test.ptx", progressSource)
	l := m.launch(t, "stuck", 3, 64, uint64(0))
	l.Shuffle = &Shuffle{Seed: 1}
	if f := mustFault(t, l); !strings.Contains(f.Why, "deadlock: ") {
		t.Errorf("got %+v", *f)
	}
	l = m.launch(t, "locked", 20, 256, put(m.mem, []int32{1}), put(m.mem, []int32{1}))
	l.Shuffle = &Shuffle{Seed: 1}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, l); err == nil {
		t.Error("a kernel without an end has ended")
	}
}
