package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/sweep"
)

// Options say how hard a leg of the storm is.
type Options struct {
	Goroutines int // that run rounds at once
	Rounds     int // of each goroutine
	Seed       uint64
	Faults     fault.Options
	// Lost says that the faults lose the contexts, or refuse frees: then objects may stay.
	Lost bool
}

// Count is what a leg has done.
type Count struct {
	Rounds, Failed, Verified, Panics int64
}

// storm is one leg.
type storm struct {
	o     Options
	d     *fault.Driver
	gpus  [2]*ferry.GPU
	count struct{ rounds, failed, verified, panics atomic.Int64 }

	sources [12]slot[source]
	streams [8]slot[ferry.Stream]
	events  [8]slot[ferry.Event]
	graphs  [4]slot[ferry.Graph]
	modules [4]slot[ferry.Module]
	pinned  [2]slot[ferry.PinnedPool]
	pools   [2]slot[ferry.MemPool]

	mu       sync.Mutex
	unclosed []io.Closer // whose Close returned an error
	wrong    []error
}

// slot is a place for something that the goroutines share. Any of them may replace it.
type slot[T any] struct{ atomic.Pointer[T] }

// errPlanted is with what functions of the storm panic, and what they return.
var errPlanted = errors.New("planted by the storm")

// Run runs one leg on a driver with two devices, and returns what was wrong.
func Run(inner cu.Driver, o Options) (Count, error) {
	s := &storm{o: o, d: fault.Wrap(inner, o.Faults)}
	for i := range s.gpus {
		g, err := ferry.OpenDriver(s.d, i)
		if err != nil {
			if i > 0 {
				_ = s.gpus[0].Close()
			}
			return Count{}, nil // a fault of the leg
		}
		s.gpus[i] = g
	}
	s.begin(rand.New(rand.NewPCG(o.Seed, uint64(o.Goroutines))))
	var all sync.WaitGroup
	for i := range o.Goroutines {
		random := rand.New(rand.NewPCG(o.Seed, uint64(i)))
		all.Go(func() {
			for range o.Rounds {
				s.round(random)
			}
		})
	}
	err := s.within("the rounds", all.Wait)
	if err == nil {
		err = s.within("the end", s.end)
	}
	return Count{s.count.rounds.Load(), s.count.failed.Load(), s.count.verified.Load(), s.count.panics.Load()}, errors.Join(err, errors.Join(s.wrong...))
}

// begin makes some of what the goroutines share.
func (s *storm) begin(random *rand.Rand) {
	for range 20 {
		for _, a := range acts {
			if strings.HasPrefix(a.name, "make") || strings.HasPrefix(a.name, "share") {
				s.alone(random, func(w *worker) error { return a.do(w, context.Background()) })
			}
		}
	}
}

// hung is longer than a leg takes.
const hung = 4 * time.Minute

// within returns an error with all stacks if f hangs.
func (s *storm) within(what string, f func()) error {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
		return nil
	case <-time.After(hung):
		stacks := make([]byte, 8<<20)
		return fmt.Errorf("%s hang:\n%s", what, stacks[:runtime.Stack(stacks, true)])
	}
}

// round runs a scenario or an act.
func (s *storm) round(random *rand.Rand) {
	s.count.rounds.Add(1)
	s.alone(random, func(w *worker) error {
		ctx, cancel := w.context()
		defer cancel()
		return w.step(ctx)
	})
}

// alone calls f on a goroutine of its own, which functions of the program may end.
func (s *storm) alone(random *rand.Rand, f func(w *worker) error) {
	w := &worker{storm: s, random: random, g: s.gpus[random.IntN(2)]}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { s.caught(w.doing, recover()) }()
		defer w.closeAll()
		if err := f(w); err != nil {
			s.count.failed.Add(1)
			if strings.Contains(err.Error(), "wrong data") || strings.Contains(err.Error(), "BUG") {
				s.report(w.doing, err)
			}
		}
	}()
	<-done
}

// step does what the round is for.
func (w *worker) step(ctx context.Context) error {
	if w.random.IntN(3) == 0 {
		scenario := sweep.Scenarios[w.random.IntN(len(sweep.Scenarios))]
		w.doing = "scenario " + scenario.Name
		if _, own := ctx.(*program); own { // it may be a typed nil, and a scenario that panics closes nothing
			ctx = context.Background()
		}
		err := scenario.Run(ctx, w.g)
		if err == nil {
			w.count.verified.Add(1)
		}
		return err
	}
	a := acts[w.random.IntN(len(acts))]
	w.doing += "act " + a.name
	return a.do(w, ctx)
}

// caught judges a panic: it must be one of the storm, or the documented one of Slice.
func (s *storm) caught(doing string, value any) {
	if value == nil {
		return
	}
	s.count.panics.Add(1)
	if _, isRuntime := value.(runtime.Error); isRuntime && !strings.Contains(doing, nilContext) {
		stack := make([]byte, 1<<14)
		s.report(doing, fmt.Errorf("panic: %v\n%s", value, stack[:runtime.Stack(stack, false)]))
		return
	}
	if err, ok := value.(error); !ok {
		s.report(doing, fmt.Errorf("panic: %v", value))
	} else if strings.Contains(err.Error(), "BUG") {
		s.report(doing, err)
	}
}

// report keeps what is wrong.
func (s *storm) report(doing string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wrong) < 10 {
		s.wrong = append(s.wrong, fmt.Errorf("%s: %w", doing, err))
	}
}

// close closes something, and keeps it if that fails: a driver call that failed, or a reader that
// uses it.
func (s *storm) close(c io.Closer) {
	if err := c.Close(); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unclosed = append(s.unclosed, c)
	}
}

// replace puts v into a slot, and closes what was there.
func replace[T any, P interface {
	*T
	io.Closer
}](s *storm, at *slot[T], v P) {
	if old := P(at.Swap((*T)(v))); old != nil {
		s.close(old)
	}
}

// end closes all that is left, and the GPUs, and finds what was not freed.
func (s *storm) end() {
	for i := range s.sources {
		replace(s, &s.sources[i], nil)
	}
	for i := range s.streams {
		replace(s, &s.streams[i], nil)
		replace(s, &s.events[i], nil)
	}
	for i := range s.graphs {
		replace(s, &s.graphs[i], nil)
		replace(s, &s.modules[i], nil)
	}
	for i := range s.pools {
		replace(s, &s.pinned[i], nil)
		replace(s, &s.pools[i], nil)
	}
	for _, c := range slices.Backward(s.unclosed) { // what was kept before may have been closed by its copy
		for tries := 0; tries < 100; tries++ {
			err := c.Close()
			if err == nil {
				break
			}
			if tries == 99 && !s.o.Lost {
				s.report("the end", fmt.Errorf("close %T: %w", c, err))
			}
			time.Sleep(time.Millisecond)
		}
	}
	for _, g := range s.gpus {
		_ = g.Close()
	}
	if s.o.Lost {
		return
	}
	for tries := 0; len(s.d.Live()) > 0 && tries < 10_000; tries++ { // other goroutines may still close what was abandoned
		time.Sleep(time.Millisecond)
	}
	if live := s.d.Live(); len(live) > 0 {
		s.report("the end", fmt.Errorf("%d objects are left: %.1000v", len(live), live))
	}
}
