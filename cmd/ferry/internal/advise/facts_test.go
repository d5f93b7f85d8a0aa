package advise

import (
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
)

// h200 returns a predictor for the H200.
func h200(t *testing.T) *predictor {
	t.Helper()
	prof, err := profile.Named("h200")
	if err != nil {
		t.Fatal(err)
	}
	return newPredictor(prof, 1)
}

// us returns the predicted time of a way in microseconds.
func us(t *testing.T, p *predictor, w way, j Job) float64 {
	t.Helper()
	complete(&j)
	r, err := p.predict(t.Context(), w, j)
	if err != nil {
		t.Fatal(err)
	}
	return r.ns / 1e3
}

// complete fills in the defaults of the command.
func complete(j *Job) {
	j.Reuse, j.Devices = max(1, j.Reuse), max(1, j.Devices)
	if j.Access.Kind == "" {
		j.Access.Kind = Stream
	}
	if j.Source == "" {
		j.Source = Slice
	}
}

var (
	copied   = way{kind: Pinned, path: Copied}
	mapped   = way{kind: ZeroCopy, path: Mapped}
	chunks   = way{Pinned, Pipelined, 8, 2}
	mebibyte = 1 << 20
)

// TestFacts holds the predictions to what an H200 showed, between two events: the two times
// are measured ones of zero-copy, and of copy and kernel. Calls and the wait take some
// 10 us more here.
func TestFacts(t *testing.T) {
	p := h200(t)
	for _, c := range []struct {
		name                string
		j                   Job
		zeroCopy, copyFirst float64
		within              float64 // of both, as a ratio
	}{
		{"4 MiB once", Job{In: 4 * mebibyte}, 90, 87, 1.15},
		{"4 MiB twice", Job{In: 4 * mebibyte, Reuse: 2}, 173, 89, 1.15},
		{"4 MiB eight times", Job{In: 4 * mebibyte, Reuse: 8}, 671, 102, 1.15},
		{"stencil of 4", Job{In: 4 * mebibyte, Access: Access{Stencil, 4}}, 95, 90, 1.15},
		{"64 MiB once", Job{In: 64 * mebibyte}, 1329, 1284, 1.05},
		{"one warp", Job{In: 4 * mebibyte, Threads: 32}, 40600, 6700, 1.15},
	} {
		over, first := us(t, p, mapped, c.j), us(t, p, copied, c.j)
		for _, x := range [][2]float64{{over, c.zeroCopy}, {first, c.copyFirst}} {
			if x[0] > c.within*(x[1]+10) || x[0] < x[1]/c.within {
				t.Errorf("%s: %.4g us, measured %v", c.name, x[0], x[1])
			}
		}
		if near := c.zeroCopy/c.copyFirst < 1.06; !near && over < 1.05*first {
			t.Errorf("%s: zero-copy %.4g us, copy and kernel %.4g, want the copy to win", c.name, over, first)
		} else if near && (over > 1.1*first || first > 1.1*over) {
			t.Errorf("%s: zero-copy %.4g us, copy and kernel %.4g, want them nearly equal", c.name, over, first)
		}
	}
}

// TestCopyWinsLarge: 64 MiB in, read once, nothing back: copying wins, by little.
func TestCopyWinsLarge(t *testing.T) {
	p, j := h200(t), Job{In: 64 * mebibyte}
	if over, first, pipe := us(t, p, mapped, j), us(t, p, copied, j), us(t, p, chunks, j); first >= over || pipe >= over {
		t.Errorf("zero-copy %v us, copy %v, pipeline %v", over, first, pipe)
	}
}

// TestVectorAddition: results go back at the same time, so zero-copy beats copies and a
// kernel one after the other at every size.
func TestVectorAddition(t *testing.T) {
	p := h200(t)
	for n := 8 << 10; n <= 32*mebibyte; n *= 4 {
		j := Job{In: n, Out: n / 2}
		if over, first := us(t, p, mapped, j), us(t, p, copied, j); over >= first {
			t.Errorf("%d bytes in: zero-copy %v us, copies and kernel %v", n, over, first)
		}
	}
}

// TestLines: where a time is extrapolated, it is near that of the whole run. One job is drawn
// for each way; without FERRY_FULL=1 it is smaller, but not so small that one run is enough.
func TestLines(t *testing.T) {
	exact, rough := h200(t), h200(t)
	exact.work = 1 << 30
	copies := sample.Count(16, 32) * mebibyte
	var all []question
	for _, j := range []Job{{In: copies, Out: copies / 2}, {In: 8 * mebibyte, Reuse: 7}, {In: max(copies, 20*mebibyte), Kernel: time.Millisecond}, {In: 4 * mebibyte, Access: Access{Stencil, 9}}} {
		complete(&j)
		for _, w := range []way{copied, mapped, {Pinned, Pipelined, 8, 4}, {kind: Pageable, path: Copied}, {kind: Managed, path: OnDemand}} {
			if w.path != Pipelined || j.Access.divides() {
				all = append(all, question{w, j})
			}
		}
	}
	for _, q := range sample.OfEach(t, all, func(q question) string { return q.w.kind + q.w.path }, len(all)) {
		within := 1.08
		if q.w.kind == Managed { // the driver moves pages in blocks that grow
			within = 1.15
		}
		if a, b := us(t, exact, q.w, q.j), us(t, rough, q.w, q.j); b > within*a || a > within*b {
			t.Errorf("%v, %+v: %v us, extrapolated %v", q.w, q.j, a, b)
		}
	}
}

// TestSame: a prediction does not depend on what ran before.
func TestSame(t *testing.T) {
	j := Job{In: mebibyte, Out: mebibyte}
	first, second := h200(t), h200(t)
	us(t, second, mapped, Job{In: 64 << 10, Reuse: 3})
	for _, w := range []way{copied, mapped, {Pinned, Pipelined, 4, 2}, {kind: Pageable, path: Copied}, {kind: Managed, path: Prefetched}} {
		if a, b := us(t, first, w, j), us(t, second, w, j); a != b {
			t.Errorf("%v: %v and %v us", w, a, b)
		}
	}
}
