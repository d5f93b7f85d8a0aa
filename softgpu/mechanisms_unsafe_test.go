package softgpu

import (
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// home is where a kernel of these tests finds its input.
type home int

const (
	onDevice home = iota
	onHost        // mapped page-locked memory
)

// mechanisms is a rig with the kernels of testdata/mechanisms.cu.
type mechanisms struct {
	*rig
	module cu.Module
	queue  cu.Stream
}

func newMechanisms(t testing.TB, o Options) *mechanisms {
	t.Helper()
	return newModule(t, "testdata/mechanisms.ptx", o)
}

// newModule returns a rig with the kernels of a file.
func newModule(t testing.TB, file string, o Options) *mechanisms {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, o)
	m, err := r.ModuleLoadData(r.ctx, text)
	r.ok(err)
	return &mechanisms{rig: r, module: m, queue: r.stream(cu.StreamNonBlocking)}
}

// words allocates words with these values at a place.
func (m *mechanisms) words(at home, v []uint32) cu.DevicePtr {
	m.t.Helper()
	n := uintptr(4 * len(v))
	host, _ := m.pinned(n)
	copy(unsafe.Slice((*uint32)(host), len(v)), v)
	if at == onHost {
		return cu.DevicePtr(uintptr(host))
	}
	p := m.alloc(n)
	m.ok(m.MemcpyHtoD(m.ctx, p, host, n))
	return p
}

// us returns the time of one launch between two events, after another one.
func (m *mechanisms) us(kernel string, grid, block int, args ...any) float64 {
	m.t.Helper()
	f, err := m.ModuleGetFunction(m.ctx, m.module, kernel)
	m.ok(err)
	began, ended := m.event(), m.event()
	for range 2 {
		m.ok(m.EventRecord(m.ctx, began, m.queue))
		m.ok(m.run(f, uint32(grid), uint32(block), m.queue, args...))
		m.ok(m.EventRecord(m.ctx, ended, m.queue))
		m.sync(m.queue)
	}
	ms, err := m.EventElapsedTime(m.ctx, began, ended)
	m.ok(err)
	return 1e3 * float64(ms)
}

// ring returns a random cycle through n indices.
func ring(n int) []uint32 {
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	next := make([]uint32, n)
	for i, at := range order {
		next[at] = uint32(order[(i+1)%n])
	}
	return next
}

// indices returns n random numbers below most.
func indices(n, most int) []uint32 {
	r := rand.New(rand.NewPCG(3, 4))
	v := make([]uint32, n)
	for i := range v {
		v[i] = uint32(r.IntN(most))
	}
	return v
}

// A thread waits for each load of a chain: for the link, the second-level cache, or the
// first-level cache, which has a sector after its first word was loaded. The times were
// measured on an H200.
func TestChainsOfLoads(t *testing.T) {
	onlyFast(t)
	const n = 4096 // words: 1000 steps touch 457 of 512 sectors
	for _, c := range []struct {
		kernel string
		at     home
		us     float64
	}{
		{"follow_volatile", onHost, 1140}, {"follow", onHost, 519.9},
		{"follow_volatile", onDevice, 153.4}, {"follow", onDevice, 80.5},
	} {
		m := newMechanisms(t, Options{})
		next := m.words(c.at, ring(n))
		within(t, c.kernel, m.us(c.kernel, 1, 1, m.alloc(4), next, uint32(1000)), c.us, 0.15)
	}
}

// A kernel of few threads has few loads in flight.
func TestFewThreads(t *testing.T) {
	onlyFast(t)
	const n = 1 << 20
	for _, c := range []struct {
		grid, block int
		at          home
		us          float64
	}{{1, 32, onHost, 40600}, {8, 256, onHost, 575.6}} {
		m := newMechanisms(t, Options{})
		in := m.words(c.at, make([]uint32, n))
		got := m.us("sum", c.grid, c.block, m.alloc(uintptr(4*c.grid*c.block)), in, uint32(n))
		within(t, "4 MiB read by few threads", got, c.us, 0.2)
	}
}

// The first-level cache serves what a block has loaded before. Multiprocessors that load the
// same lines at the same time get them one after the other.
func TestFirstLevelCache(t *testing.T) {
	onlyFast(t)
	const n = 4 << 20
	m := newMechanisms(t, Options{})
	in, out := m.words(onHost, make([]uint32, n)), m.alloc(4*n)
	for count, us := range map[uint32]float64{1: 342.4, 3: 359.7, 9: 362.8} {
		within(t, "neighbours", m.us("neighbours", n/256, 256, out, in, uint32(n), count), us, 0.1)
	}
	for rounds, us := range map[uint32]float64{1: 462.9, 4: 469} {
		within(t, "a table of 64 KiB", m.us("table", 512, 256, out, in, uint32(16384), rounds), us, 0.15)
	}
}

// Accesses in any order move sectors. The first-level cache keeps a small table, and each
// request over the link takes a least time.
func TestGatherAndScatter(t *testing.T) {
	onlyFast(t)
	const n = 1 << 20
	for _, c := range []struct {
		kernel string
		kib    int
		at     home
		us     float64
	}{
		{"pick", 64, onHost, 368.5}, {"pick", 1024, onHost, 1330.8}, {"pick", 64, onDevice, 11.7}, {"pick", 1024, onDevice, 16.3},
		{"put", 64, onHost, 1315.4}, {"put", 1024, onHost, 1324.8}, {"put", 1024, onDevice, 23.1}, {"put", 64, onDevice, 42.7},
		{"count", 1024, onDevice, 19.2}, {"count", 65536, onDevice, 35.4},
	} {
		m := newMechanisms(t, Options{})
		table := m.words(c.at, make([]uint32, c.kib<<8))
		args := []any{table, m.words(onDevice, indices(n, c.kib<<8))}
		if c.kernel == "pick" {
			args = append([]any{m.alloc(4 * n)}, args...)
		}
		within(t, c.kernel, m.us(c.kernel, n/256, 256, args...), c.us, 0.15)
	}
}

// The lanes of a warp on different words of a sector share a turn of its slice of the cache.
func TestAtomicsOnFewWords(t *testing.T) {
	onlyFast(t)
	const n = 1 << 20
	for words, us := range map[int]float64{16: 199.5, 16 << 10: 21.2} {
		m := newMechanisms(t, Options{})
		got := m.us("count", n/256, 256, m.words(onDevice, make([]uint32, words)), m.words(onDevice, indices(n, words)))
		within(t, "additions to few words", got, us, 0.20)
	}
}

// An atomic operation on host memory locks a line of 64 bytes for the way there and back.
func TestAtomicsOnHostMemory(t *testing.T) {
	onlyFast(t)
	const n = 1 << 16
	for kib, us := range map[int]float64{64: 320, 1024: 179.5, 65536: 172.4} {
		m := newMechanisms(t, Options{})
		got := m.us("count", n/256, 256, m.words(onHost, make([]uint32, kib<<8)), m.words(onDevice, indices(n, kib<<8)))
		within(t, "additions to host memory", got, us, 0.15)
	}
	m := newMechanisms(t, Options{})
	got := m.us("count", 16, 256, m.words(onHost, make([]uint32, 1<<10)), m.words(onDevice, indices(4096, 1<<10)))
	within(t, "few additions to host memory", got, 167, 0.20)
}

// Dependent arithmetic of one warp takes its latency.
func TestChainsOfArithmetic(t *testing.T) {
	onlyFast(t)
	m := newMechanisms(t, Options{})
	out := m.alloc(128)
	within(t, "square roots", m.us("roots", 1, 32, out, uint32(0x3f800000), uint32(1000)), 28.2, 0.25)
	within(t, "quotients", m.us("quotients", 1, 32, out, uint32(12345), uint32(7), uint32(1000)), 40.6, 0.25)
}

// A clock whose cycle is shorter than the unit of the model gives a time, not NaN, with
// which virtual time would stand still forever.
func TestFastClock(t *testing.T) {
	m := newMechanisms(t, Options{Profile: with(named(t, "h200"), "CLOCK_RATE", math.MaxInt32)})
	f, err := m.ModuleGetFunction(m.ctx, m.module, "roots")
	m.ok(err)
	fn, err := lookup[*function](m.Driver, uintptr(f), "test", "function")
	m.ok(err)
	l := &launch{fn: fn, grid: cu.Dim3{X: 1, Y: 1, Z: 1}, block: cu.Dim3{X: 32, Y: 1, Z: 1}}
	if got := l.on(m.devices[0]).Model().Cycle; got < 1 {
		t.Fatalf("a cycle takes %d ps", got)
	}
	if us := m.us("roots", 1, 32, m.alloc(128), uint32(0x3f800000), uint32(1000)); us > 1e3 {
		t.Errorf("1000 roots take %v us", us)
	}
}

// The time of a kernel does not depend on the cores of the host.
func TestKernelTimeOnAnyNumberOfCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	n := 1 << 16
	if sample.Race() {
		n = 1 << 12
	}
	times := func() (us []float64) {
		m := newMechanisms(t, Options{})
		in, out, index := m.words(onHost, make([]uint32, n)), m.alloc(uintptr(4*n)), m.words(onDevice, indices(n, n))
		bins := m.words(onHost, make([]uint32, n))
		return []float64{
			m.us("neighbours", n/256, 256, out, in, uint32(n), uint32(9)),
			m.us("table", min(600, n/64), 64, out, in, uint32(1000), uint32(2)),
			m.us("pick", n/256, 256, out, in, index),
			m.us("count", n/256, 256, bins, index),
			m.us("sum", 3, 100, out, in, uint32(n/4)),
			m.us("wait_for_first", 1, 128, out, m.words(onHost, ring(64)), uint32(100)),
		}
	}
	var want []float64
	for _, cores := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(cores)
		got := times()
		if want == nil {
			want = got
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("kernel %d, %d cores: %v us, with one core %v", i, cores, got[i], want[i])
			}
		}
	}
}
