package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

func open(t *testing.T, name string) *ferry.GPU {
	t.Helper()
	g, err := ferry.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func compare(t *testing.T, device string, o *Options) *Comparison {
	t.Helper()
	t.Setenv(softgpu.ScheduleVariable, "eager")
	c, err := Compare(t.Context(), open(t, device), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCompare checks that every kind that the machine has gets a time at every size, also
// at sizes that are not a multiple of a block's. Kinds that it lacks get none.
func TestCompare(t *testing.T) {
	for device, lacks := range map[string][]Kind{
		"soft:h200":        nil,
		"soft:fermi-c2050": {Managed, ManagedPrefetched},
	} {
		c := compare(t, device, &Options{Min: 1, Max: 12})
		if len(c.Rows) != 12 {
			t.Fatalf("%s: %d rows", device, len(c.Rows))
		}
		for _, r := range c.Rows {
			if !r.Verified {
				t.Errorf("%s, %s: not verified", device, r.size())
			}
			for _, k := range Kinds() {
				missing := false
				for _, l := range lacks {
					missing = missing || k == l
				}
				if p := r.Points[k]; (p == nil) != missing || p != nil && (p.Median <= 0 || p.Samples < 1) {
					t.Errorf("%s, %s, %s: got %+v", device, r.size(), k, p)
				}
			}
		}
	}
}

// TestCompareIsPlausible checks what holds for any machine with a link that is slower than
// its memory.
func TestCompareIsPlausible(t *testing.T) {
	c := compare(t, "soft:h200", &Options{Min: 12, Max: 18})
	for i := range c.Rows {
		p := c.Rows[i].Points
		if p[KernelAlone].Median >= p[Pinned].Median || p[KernelAlone].Median > p[ZeroCopy].Median {
			t.Errorf("%s: the kernel alone takes %v, pinned %v, zero-copy %v",
				c.Rows[i].size(), p[KernelAlone].Median, p[Pinned].Median, p[ZeroCopy].Median)
		}
		if i > 0 && p[Pinned].Median <= c.Rows[i-1].Points[Pinned].Median {
			t.Errorf("%s: pinned is no slower than half the size", c.Rows[i].size())
		}
	}
}

// TestCompareIsDeterministic checks that a seed determines the result. With another order
// of the kinds, times differ by at most one nanosecond, because the virtual clock rounds.
func TestCompareIsDeterministic(t *testing.T) {
	measure := func(seed uint64) *Comparison {
		return compare(t, "soft:h200", &Options{Min: 10, Max: 12, Seed: seed})
	}
	first := measure(1)
	text, err := first.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := measure(1).JSON(); err != nil || string(again) != string(text) {
		t.Errorf("got\n%s\nwant\n%s", again, text)
	}
	for i, r := range measure(2).Rows {
		for _, k := range Kinds() {
			p := r.Points[k]
			want := first.Rows[i].Points[k].Median
			if d := p.Median - want; d < -1 || d > 1 {
				t.Errorf("%s, %s: got %v, want %v", r.size(), k, p.Median, want)
			}
		}
	}
}

func TestCompareRefuses(t *testing.T) {
	g := open(t, "soft")
	for _, o := range []*Options{{Min: -1, Max: 3}, {Min: 5, Max: 4}, {Min: 3, Max: 31}} {
		if _, err := Compare(t.Context(), g, o); err == nil || !strings.Contains(err.Error(), "min <= max") {
			t.Errorf("%+v: got %v", o, err)
		}
	}
}

func TestCompareEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := open(t, "soft")
	c, err := Compare(ctx, g, &Options{Min: 4, Max: 20, Progress: func(done, _, _ int) {
		if done == 2 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || len(c.Rows) > 3 {
		t.Errorf("got %d rows, %v", len(c.Rows), err)
	}
}

// spoiled returns an experiment whose step calls wrong after its work.
func spoiled(t *testing.T, l *lab, k Kind, wrong func(l *lab) error) *experiment {
	t.Helper()
	for i := range l.experiments {
		if x := l.experiments[i]; x.kind == k {
			step := x.step
			x.step = func(ctx context.Context) error {
				if err := step(ctx); err != nil {
					return err
				}
				return wrong(l)
			}
			return &x
		}
	}
	t.Fatalf("no %s", k)
	return nil
}

// TestWrongResultsAreCaught checks that one wrong element is found, and also a step that
// does nothing.
func TestWrongResultsAreCaught(t *testing.T) {
	b, err := newComparer(open(t, "soft"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	const n = 1 << 12
	l, err := b.newLab(n)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	spoil := func(l *lab) error { l.pinned.c.Slice()[n/2]++; return nil }
	if _, err := b.sample(t.Context(), spoiled(t, l, Pinned, func(*lab) error { return nil })); err != nil {
		t.Fatalf("a good step: %v", err)
	}
	_, err = b.sample(t.Context(), spoiled(t, l, Pinned, spoil))
	if !errors.Is(err, errWrong) || !strings.Contains(err.Error(), "1 of 4096") || !strings.Contains(err.Error(), "c[2048]") {
		t.Errorf("one wrong element: got %v", err)
	}
	for i := range l.experiments {
		x := l.experiments[i]
		x.step = func(context.Context) error { return nil }
		if _, err := b.sample(t.Context(), &x); !errors.Is(err, errWrong) || !strings.Contains(err.Error(), "4096 of 4096") {
			t.Errorf("%s without its step: got %v", x.kind, err)
		}
	}
}

// oneShort is a driver whose kernels omit the last element.
type oneShort struct{ cu.Driver }

func (d oneShort) Unwrap() cu.Driver { return d.Driver }

func (d oneShort) LaunchKernel(ctx cu.Context, f cu.Function, grid, block cu.Dim3, shared uint32, s cu.Stream, params []byte) error {
	n := binary.LittleEndian.Uint64(params[24:])
	return d.Driver.LaunchKernel(ctx, f, grid, block, shared, s, binary.LittleEndian.AppendUint64(bytes.Clone(params[:24]), n-1))
}

// TestWrongResultsAreReported checks that a wrong element is reported for every size, in the
// error and in the document.
func TestWrongResultsAreReported(t *testing.T) {
	soft, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := ferry.OpenDriver(oneShort{soft}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	c, err := Compare(t.Context(), g, &Options{Min: 10, Max: 11})
	if !errors.Is(err, errWrong) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"2^10 floats: wrong result: 1 of 1024 results are wrong", "2^11 floats", "c[2047]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant it to say %q", err, want)
		}
	}
	text, err := c.JSON()
	if err != nil || strings.Count(string(text), `"verified":false`) != 2 {
		t.Errorf("got %s, %v", text, err)
	}
	if !strings.Contains(c.Page(false).Text(0), "WRONG") {
		t.Errorf("got %s", c.Page(false).Text(0))
	}
}

// TestWarmUp checks that warming up ends with its time and with its context.
func TestWarmUp(t *testing.T) {
	b, err := newComparer(open(t, "soft"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	if err := b.warmUp(t.Context(), 1<<10, 5*time.Millisecond); err != nil || b.seed == 0 {
		t.Errorf("after %d samples: %v", b.seed, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.warmUp(ctx, 1<<10, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPlan(t *testing.T) {
	same := make([]time.Duration, 40)
	for i := range same {
		same[i] = 1000
	}
	noisy := append([]time.Duration(nil), same...)
	for i := range noisy {
		noisy[i] += time.Duration(i%5) * 100
	}
	p := planFor(false, 1<<20, time.Second)
	for _, c := range []struct {
		name    string
		samples []time.Duration
		elapsed time.Duration
		want    bool
	}{
		{"none", nil, 0, false},
		{"none, and no time", nil, time.Hour, false},
		{"few, and no time", noisy[:3], time.Hour, true},
		{"few that agree", same[:9], 0, false},
		{"ten that agree", same[:10], 0, true},
		{"ten that do not", noisy[:10], 0, false},
		{"thirty that do not", noisy[:30], 0, true},
	} {
		if got := p.enough(c.samples, c.elapsed); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
	if e := planFor(true, 1<<22, 0); !e.enough(same[:1], 0) || e.enough(nil, time.Hour) {
		t.Error("on a virtual clock, one sample must be enough and none must not")
	}
}
