package softgpu

import (
	"math"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// capability returns a fermi-c2050 of another compute capability.
func capability(t *testing.T, major, minor, engines float64) Options {
	p := with(named(t, "fermi-c2050"), "COMPUTE_CAPABILITY_MAJOR", major)
	p = with(p, "COMPUTE_CAPABILITY_MINOR", minor)
	return Options{Profile: with(p, "ASYNC_ENGINE_COUNT", engines)}
}

// period is a copy or a kernel of TestOverlapOfTwoStreams.
type period struct{ from, to float64 }

func (a period) overlap(b period) float64 { return max(0, min(a.to, b.to)-max(a.from, b.from)) }

func (a period) length() float64 { return a.to - a.from }

// copyKernelCopy queues copy in, kernel, copy out on two streams and returns
// when each operation ran.
func copyKernelCopy(t *testing.T, opts Options, depth bool, n uintptr, blocks uint32, words uint64) (all [3][2]period) {
	r := newRig(t, opts)
	f := r.shipped("increment")
	var s [2]cu.Stream
	var dev [2]cu.DevicePtr
	var host [2]cu.HostPtr
	for i := range 2 {
		s[i], dev[i] = r.stream(cu.StreamNonBlocking), r.alloc(max(n, uintptr(4*words)))
		host[i], _ = r.pinned(n)
	}
	var ops [3][2]*op
	step := func(k, i int) {
		switch k {
		case 0:
			r.ok(r.MemcpyHtoDAsync(r.ctx, dev[i], host[i], n, s[i]))
		case 1:
			r.ok(r.LaunchKernel(r.ctx, f, cu.Dim3{X: blocks, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, s[i], params64(uint64(dev[i]), words)))
		case 2:
			r.ok(r.MemcpyDtoHAsync(r.ctx, host[i], dev[i], n, s[i]))
		}
		ops[k][i] = r.lastOp(s[i])
	}
	for a := range 6 {
		if depth {
			step(a%3, a/3)
		} else {
			step(a/2, a%2)
		}
	}
	r.ok(r.CtxSynchronize(r.ctx))
	for k := range ops {
		for i, o := range ops[k] {
			all[k][i] = period{o.start, o.end}
		}
	}
	return all
}

// lastOp returns the last op of a stream.
func (r *rig) lastOp(s cu.Stream) *op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handles[uintptr(s)].(*streamState).last
}

// Two streams overlap as the programming guide describes it for devices of
// compute capability 3.0 and lower.
func TestOverlapOfTwoStreams(t *testing.T) {
	onlyFast(t)
	for _, c := range []struct {
		name     string
		engines  float64
		depth    bool
		inOut    bool    // the second copy in overlaps the first copy out
		inKernel bool    // the second copy in overlaps the first kernel
		kernels  bool    // the kernels overlap
		out      float64 // the most of the second kernel that overlaps the first copy out
	}{
		{"two engines, depth first", 2, true, true, true, false, 0},
		{"two engines, breadth first", 2, false, false, true, true, 0.1},
		{"one engine, depth first", 1, true, false, false, false, 0},
		{"one engine, breadth first", 1, false, false, true, true, 0.1},
	} {
		// Breadth first, kernels are longer than copies, so that they can overlap.
		n, words := uintptr(64<<10), uint64(2<<20)
		if c.depth {
			n, words = 1<<20, 256<<10
		}
		ran := copyKernelCopy(t, capability(t, 2, 0, c.engines), c.depth, n, 7, words)
		in, kernel, out := ran[0], ran[1], ran[2]
		if got := in[1].overlap(out[0]) > 0; got != c.inOut {
			t.Errorf("%s: copy in %v and copy out %v overlap: %v", c.name, in[1], out[0], got)
		}
		if got := in[1].overlap(kernel[0]) > 0; got != c.inKernel {
			t.Errorf("%s: copy in %v and kernel %v overlap: %v", c.name, in[1], kernel[0], got)
		}
		if got := kernel[0].overlap(kernel[1]) > 0; got != c.kernels {
			t.Errorf("%s: kernels %v and %v overlap: %v", c.name, kernel[0], kernel[1], got)
		}
		if got := out[0].overlap(kernel[1]) / kernel[1].length(); c.kernels && got > c.out {
			t.Errorf("%s: %.2f of kernel %v are beside the first copy out, %v", c.name, got, kernel[1], out[0])
		}
	}
}

// Depth first, kernels that are longer than copies do not overlap either, because
// the first copy out checks the first kernel. They do from compute capability 3.2
// on.
func TestCopyOutHoldsBackKernels(t *testing.T) {
	onlyFast(t)
	for cc, want := range map[float64]bool{2.0: false, 3.0: false, 3.2: true} {
		major := math.Floor(cc)
		ran := copyKernelCopy(t, capability(t, major, math.Round(10*(cc-major)), 2), true, 64<<10, 7, 2<<20)
		if got := ran[1][0].overlap(ran[1][1]) > 0; got != want {
			t.Errorf("compute capability %v: kernels %v overlap: %v", cc, ran[1], got)
		}
	}
}

// The first copy out starts when the last blocks of all kernels before it have
// started, and not before.
func TestCopyOutBesideTheLastBlocks(t *testing.T) {
	onlyFast(t)
	const waves = 4
	ran := copyKernelCopy(t, capability(t, 2, 0, 2), false, 64<<10, waves*14*6, 2<<20)
	kernel, out := ran[1], ran[2]
	if last := kernel[1].to - kernel[1].length()/waves; out[0].from < last-1 || out[0].from > kernel[1].to {
		t.Errorf("the first copy out starts at %.0f, want it between %.0f and %.0f, the end of the second kernel", out[0].from, last, kernel[1].to)
	}
	newer := copyKernelCopy(t, capability(t, 3, 2, 2), false, 64<<10, waves*14*6, 2<<20)
	if k, o := newer[1], newer[2]; o[0].from >= k[1].from+k[1].length()/2 {
		t.Errorf("compute capability 3.2: the first copy out starts at %.0f, with kernel %v", o[0].from, k[1])
	}
}

// twoKernels launches a kernel in each of two streams, with between in between,
// and returns by how much they overlap.
func twoKernels(t *testing.T, opts Options, between func(r *rig, f cu.Function, first cu.Stream)) float64 {
	r := newRig(t, opts)
	const n = 1 << 20
	f, g := r.shipped("increment"), r.shipped("increment")
	dev := [2]cu.DevicePtr{r.alloc(n), r.alloc(n)}
	s := [2]cu.Stream{r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)}
	var k [2]period
	var ops [2]*op
	for i, f := range []cu.Function{f, g} {
		r.ok(r.LaunchKernel(r.ctx, f, cu.Dim3{X: 7, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, s[i], params64(uint64(dev[i]), n/4)))
		ops[i] = r.lastOp(s[i])
		if i == 0 {
			between(r, g, s[0])
		}
	}
	r.ok(r.CtxSynchronize(r.ctx))
	for i, o := range ops {
		k[i] = period{o.start, o.end}
	}
	return k[0].overlap(k[1])
}

// An operation that checks a kernel holds back later kernels of all streams, up
// to compute capability 3.0.
func TestDependencyChecks(t *testing.T) {
	onlyFast(t)
	for _, c := range []struct {
		name    string
		between func(r *rig, f cu.Function, first cu.Stream)
		holds   bool
	}{
		{"nothing", func(*rig, cu.Function, cu.Stream) {}, false},
		{"an event record in its stream", func(r *rig, _ cu.Function, s cu.Stream) { r.ok(r.EventRecord(r.ctx, r.event(), s)) }, true},
		{"an event record in another stream", func(r *rig, _ cu.Function, s cu.Stream) {
			r.ok(r.EventRecord(r.ctx, r.event(), r.stream(cu.StreamNonBlocking)))
		}, false},
		{"a query of its stream", func(r *rig, _ cu.Function, s cu.Stream) { r.StreamQuery(r.ctx, s) }, true},
		{"a switch of the cache", func(r *rig, f cu.Function, _ cu.Stream) {
			r.ok(r.FuncSetCacheConfig(r.ctx, f, cu.FuncCachePreferL1))
		}, true},
	} {
		for _, cc := range []float64{20, 30, 32, 35} {
			opts := capability(t, float64(int(cc)/10), float64(int(cc)%10), 2)
			overlap := twoKernels(t, opts, c.between)
			if want := c.holds && cc <= 30; (overlap == 0) != want {
				t.Errorf("compute capability %v, with %s between them, kernels overlap by %.0f ns", cc/10, c.name, overlap)
			}
		}
	}
	for _, s := range []Schedule{Lazy, Random} {
		opts := capability(t, 2, 0, 2)
		opts.Schedule = s
		record := func(r *rig, _ cu.Function, s cu.Stream) { r.ok(r.EventRecord(r.ctx, r.event(), s)) }
		if overlap := twoKernels(t, opts, record); overlap != 0 {
			t.Errorf("%v: kernels overlap by %.0f ns", s, overlap)
		}
	}
}

// Many kernels that nobody waits for are not followed one by one: a later one stands for
// those that it follows.
func TestDependencyChecksStayFew(t *testing.T) {
	opts := capability(t, 2, 0, 2)
	opts.Schedule = Lazy // nothing retires
	r := newRig(t, opts)
	const n, launches = 1 << 10, 400
	f, dev := r.shipped("increment"), [3]cu.DevicePtr{r.alloc(n), r.alloc(n), r.alloc(n)}
	s := [3]cu.Stream{r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)}
	for i := range launches {
		to, at := s[i%len(s)], dev[i%len(s)]
		r.ok(r.LaunchKernel(r.ctx, f, cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, to, params64(uint64(at), n/4)))
		r.ok(r.EventRecord(r.ctx, r.event(), to))
	}
	r.mu.Lock()
	c := r.handles[uintptr(s[0])].(*streamState).ctx
	launched, checking := len(c.launched), len(c.checking)
	r.mu.Unlock()
	if launched > 10 || checking > 10 {
		t.Errorf("after %d launches the next one looks at %d kernels and %d checks", launches, launched, checking)
	}
}
