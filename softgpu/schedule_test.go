package softgpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

func TestParseSchedule(t *testing.T) {
	for _, text := range []string{"eager", "lazy", "random", "random:1", "random:72057594037927935"} {
		s, err := ParseSchedule(text)
		if err != nil || s.String() != text {
			t.Errorf("%q is %v, %v", text, s, err)
		}
	}
	if s, err := ParseSchedule("random:0"); s != Random || err != nil {
		t.Errorf("got %v, %v", s, err)
	}
	for _, text := range []string{"", "Eager", "random:", "random:x", "random:-1", "random:72057594037927936", "lazy:3", " lazy"} {
		if s, err := ParseSchedule(text); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
}

func TestScheduleFromTheEnvironment(t *testing.T) {
	open := func(env string, opts Options) *Driver {
		t.Helper()
		t.Setenv(ScheduleVariable, env)
		d, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for env, want := range map[string]Schedule{"": Eager, "lazy": Lazy, "random:9": Random} {
		if got := open(env, Options{}).schedule; got != want {
			t.Errorf("%q gives %v, want %v", env, got, want)
		}
	}
	if got := open("lazy", Options{Schedule: Random}).schedule; got != Random {
		t.Errorf("the environment changed a schedule that was chosen to %v", got)
	}
	nine, err := ParseSchedule("random:9")
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := open("random:9", Options{Seed: 4}), open("", Options{Schedule: Random, Seed: 9}), open("", Options{Schedule: nine})
	if x := a.rng.Uint64(); x != b.rng.Uint64() || x != c.rng.Uint64() {
		t.Error("the same seed gives different runs")
	}
	t.Setenv(ScheduleVariable, "sometimes")
	if _, err := Open(Options{}); err == nil || !strings.Contains(err.Error(), ScheduleVariable) {
		t.Errorf("got %v", err)
	}
	if _, err := Open(Options{Schedule: 7}); err == nil {
		t.Error("an unknown schedule was accepted")
	}
}

// program is a random program of copies and fills of buffers on streams. Each
// step is ordered after the steps with which it conflicts, by its stream or by
// an event. The field before is a model of the order, derived from the rules
// alone.
type program struct {
	steps  []step
	before [][]bool // before[i][j]: step i must come before step j
}

type step struct {
	stream   int
	dst, src int   // buffers; src -1 for a fill
	waits    []int // steps whose events the stream waits for first
}

const (
	orderStreams = 5 // the legacy stream, two blocking streams and two non-blocking streams
	orderBuffers = 4
	orderBytes   = 64
)

func blocking(stream int) bool { return stream < 3 }

// newProgram makes a program of n steps. If careful is false, no stream waits
// for another.
func newProgram(seed uint64, n int, careful bool) *program {
	rng := rand.New(rand.NewPCG(seed, 7))
	p := &program{}
	for j := range n {
		s := step{stream: rng.IntN(orderStreams), dst: rng.IntN(orderBuffers), src: rng.IntN(orderBuffers+1) - 1}
		if s.src == s.dst {
			s.src = -1
		}
		row := make([]bool, j)
		p.before = append(p.before, row)
		for i := j - 1; i >= 0; i-- { // newest first, because follow adds all that a step follows
			if p.streamOrders(i, s.stream) {
				p.follow(j, i)
			}
		}
		for i := j - 1; careful && i >= 0; i-- {
			if !row[i] && p.steps[i].conflicts(s) {
				s.waits = append(s.waits, i)
				p.follow(j, i)
			}
		}
		p.steps = append(p.steps, s)
	}
	return p
}

// streamOrders reports whether the next step of a stream follows step i.
func (p *program) streamOrders(i, stream int) bool {
	of := p.steps[i].stream
	return of == stream || blocking(of) && blocking(stream) && (of == 0 || stream == 0)
}

// follow records that step j comes after i, and after all steps that i follows.
func (p *program) follow(j, i int) {
	p.before[j][i] = true
	for k, earlier := range p.before[i] {
		p.before[j][k] = p.before[j][k] || earlier
	}
}

func (a step) conflicts(b step) bool {
	return a.dst == b.dst || a.dst == b.src || a.src == b.dst
}

// run returns the bytes that the program leaves, the order of its steps and its
// virtual time.
func (p *program) run(t *testing.T, o Options) (all []byte, order []int, took float64) {
	r := newRig(t, o)
	streams := []cu.Stream{0, r.stream(0), r.stream(0), r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)}
	base := r.alloc(orderBuffers * orderBytes)
	r.ok(r.MemsetD8(r.ctx, base, 0, orderBuffers*orderBytes))
	r.ok(r.CtxSynchronize(r.ctx))
	at := func(buffer int) cu.DevicePtr { return base + cu.DevicePtr(buffer*orderBytes) }
	var mu sync.Mutex
	events := make([]cu.Event, len(p.steps))
	for j, s := range p.steps {
		on := streams[s.stream]
		for _, i := range s.waits {
			r.ok(r.StreamWaitEvent(r.ctx, on, events[i], 0))
		}
		if s.src < 0 {
			r.ok(r.MemsetD8Async(r.ctx, at(s.dst), uint8(j+1), uintptr(1+j%orderBytes), on))
		} else {
			r.ok(r.MemcpyDtoDAsync(r.ctx, at(s.dst)+cu.DevicePtr(j%7), at(s.src), orderBytes-7, on))
		}
		r.ok(r.LaunchHostFunc(r.ctx, on, func() {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, j)
		}))
		events[j] = r.event()
		r.ok(r.EventRecord(r.ctx, events[j], on))
	}
	r.ok(r.CtxSynchronize(r.ctx))
	all = make([]byte, orderBuffers*orderBytes)
	r.ok(r.MemcpyDtoH(r.ctx, ptr(all), base, uintptr(len(all))))
	return all, order, float64(r.Now())
}

// legal fails if an order breaks the model.
func (p *program) legal(order []int) error {
	if len(order) != len(p.steps) {
		return fmt.Errorf("%d of %d steps ran", len(order), len(p.steps))
	}
	at := make([]int, len(order))
	for place, j := range order {
		at[j] = place
	}
	for j, row := range p.before {
		for i, before := range row {
			if before && at[i] > at[j] {
				return fmt.Errorf("step %d ran before step %d, which it must follow", j, i)
			}
		}
	}
	return nil
}

func schedules(seeds int) []Options {
	all := []Options{{Schedule: Eager}, {Schedule: Lazy}}
	for seed := range seeds {
		all = append(all, Options{Schedule: Random, Seed: uint64(seed)})
	}
	return all
}

// A program that synchronizes correctly leaves the same bytes under every
// schedule, and the model allows every order.
func TestSchedulesAreLegal(t *testing.T) {
	orders := map[string]bool{}
	programs := 6
	if sample.Race() {
		programs = 2
	}
	for seed := range uint64(programs) {
		p := newProgram(seed, 40, true)
		var want []byte
		for _, o := range schedules(20) {
			got, order, _ := p.run(t, o)
			if err := p.legal(order); err != nil {
				t.Fatalf("program %d under %v, seed %d: %v", seed, o.Schedule, o.Seed, err)
			}
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("program %d under %v, seed %d leaves other bytes than under eager", seed, o.Schedule, o.Seed)
			}
			orders[fmt.Sprint(order)] = true
		}
	}
	if len(orders) < 10*programs {
		t.Errorf("only %d orders: the schedules hardly differ", len(orders))
	}
}

// Programs whose streams do not wait for each other leave other bytes under
// some schedule, also in legal orders.
func TestSchedulesFind(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports the missing synchronization")
	}
	found := 0
	for seed := range uint64(6) {
		p := newProgram(seed, 40, false)
		results := map[string]bool{}
		for _, o := range schedules(10) {
			got, order, _ := p.run(t, o)
			if err := p.legal(order); err != nil {
				t.Fatalf("program %d under %v, seed %d: %v", seed, o.Schedule, o.Seed, err)
			}
			results[string(got)] = true
		}
		if len(results) > 1 {
			found++
		}
	}
	if found < 5 {
		t.Errorf("the schedules show %d of 6 wrong programs", found)
	}
}

// A seed gives the same bytes, order and times.
func TestSameRunOnAnyNumberOfCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for seed := range uint64(4) {
		p := newProgram(100+seed, 40, seed%2 == 0 || raceBuild)
		for _, o := range []Options{{Schedule: Eager}, {Schedule: Lazy}, {Schedule: Random, Seed: seed}, {Schedule: Random, Seed: seed + 50}} {
			if seed%2 != 0 && o.Schedule != Random { // the bytes of a wrong program then depend on chance
				continue
			}
			var all []byte
			var order []int
			var took float64
			for i, cores := range []int{1, 2, 8} {
				runtime.GOMAXPROCS(cores)
				a, b, c := p.run(t, o)
				if i == 0 {
					all, order, took = a, b, c
				}
				if !bytes.Equal(a, all) || c != took {
					t.Errorf("%v, seed %d: %d cores leave other bytes, or take %v ns instead of %v", o.Schedule, o.Seed, cores, c, took)
				}
				if o.Schedule == Random && !slices.Equal(b, order) {
					t.Errorf("seed %d: %d cores run in the order %v, one in %v", o.Seed, cores, b, order)
				}
			}
		}
	}
}
