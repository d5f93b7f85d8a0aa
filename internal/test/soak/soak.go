package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/kernels"
)

// Options say how long to run.
type Options struct {
	Goroutines int           // that run tasks at once; 0 is 64
	Rounds     int           // tasks in all; 0 for as many as fit in Time
	Time       time.Duration // if Rounds is 0
	Legs       int           // parts of the run, each followed by a Health; 0 is 20
	Seed       uint64
	// Only has names of tasks; all if empty.
	Only []string
	// Progress, if not nil, is called after each leg.
	Progress func(Health)
}

// Report is the result of a run.
type Report struct {
	Seed       uint64         `json:"seed"`
	Goroutines int            `json:"goroutines"`
	Rounds     int            `json:"rounds"`
	Seconds    float64        `json:"seconds"`
	Tasks      map[string]int `json:"tasks"`     // rounds of each
	Verified   uint64         `json:"verified"`  // elements that were compared
	Cancelled  int            `json:"cancelled"` // rounds whose context ended before their work
	Health     []Health       `json:"health"`
}

// Flat returns an error for each figure that has grown: that is larger in all of the last
// quarter of the legs than in any of the first half.
func (r *Report) Flat() error {
	n := len(r.Health)
	if n < 4 {
		return fmt.Errorf("%d legs: at least 4 are needed to compare", n)
	}
	return grown(r.Health[:n/2], r.Health[n-n/4:])
}

// run is what all tasks of a run share.
type run struct {
	g      *ferry.GPU
	k      *ferry.Kernel
	pinned *ferry.PinnedPool
	pool   *ferry.MemPool

	verified, cancelled atomic.Uint64
}

// Run runs tasks on g until the rounds are done, the time is over, a task fails or ctx
// ends. Every driver call goes through a wrapper that counts handles.
func Run(ctx context.Context, g *ferry.GPU, o Options) (report *Report, err error) {
	if o.Goroutines == 0 {
		o.Goroutines = 64
	}
	if o.Legs == 0 {
		o.Legs = 20
	}
	chosen, err := choose(o.Only)
	if err != nil {
		return nil, err
	}
	counted := fault.Wrap(g.Driver(), fault.Options{})
	if g, err = ferry.OpenDriver(counted, int(g.CUDevice())); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	r := &run{g: g}
	release, err := r.open()
	defer func() { err = errors.Join(err, release()) }()
	if err != nil {
		return nil, err
	}
	if err := r.warm(ctx); err != nil {
		return nil, err
	}
	report = &Report{Seed: o.Seed, Goroutines: o.Goroutines, Tasks: map[string]int{}}
	began := time.Now()
	for leg := range o.Legs {
		tasks, err := r.leg(ctx, o, chosen, leg)
		for name, n := range tasks {
			report.Tasks[name] += n
			report.Rounds += n
		}
		if err != nil {
			return report, fmt.Errorf("leg %d of seed %d: %w", leg, o.Seed, err)
		}
		h, err := health(g, counted.Live(), report.Rounds)
		if err != nil {
			return report, err
		}
		if report.Health = append(report.Health, h); o.Progress != nil {
			o.Progress(h)
		}
	}
	report.Seconds = time.Since(began).Seconds()
	report.Verified, report.Cancelled = r.verified.Load(), int(r.cancelled.Load())
	return report, nil
}

// open makes what tasks share. release closes it.
func (r *run) open() (release func() error, err error) {
	var undo []func() error
	release = func() (err error) {
		for _, f := range slices.Backward(undo) {
			err = errors.Join(err, f())
		}
		return err
	}
	m, err := ferry.Load(r.g, []byte(kernels.PTX), nil)
	if err != nil {
		return release, err
	}
	undo = append(undo, m.Close)
	if r.k, err = m.Kernel("increment"); err != nil {
		return release, err
	}
	if r.pinned, err = ferry.NewPinnedPool(r.g, nil); err != nil {
		return release, err
	}
	undo = append(undo, r.pinned.Close)
	if r.pool, err = ferry.NewMemPool(r.g, &ferry.MemPoolOptions{Keep: 64 << 20}); err != nil {
		return release, err
	}
	undo = append(undo, r.pool.Close)
	return release, nil
}

// warm copies the largest slice of a task, alone. Then staging has started the most workers
// that it keeps. Tasks that run beside each other have fewer workers each.
func (r *run) warm(ctx context.Context) error {
	w := &worker{run: r, random: rand.New(rand.NewPCG(0, 0))}
	return w.slice(ctx, mostPageable)
}

// leg runs the goroutines for one leg and returns the rounds of each task.
func (r *run) leg(ctx context.Context, o Options, chosen []task, leg int) (tasks map[string]int, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	tasks = map[string]int{}
	outer := ctx
	ctx, stop := context.WithCancel(outer)
	defer stop()
	end := time.Now().Add(o.Time / time.Duration(o.Legs))
	for i := range o.Goroutines {
		all.Go(func() {
			w := &worker{run: r, random: rand.New(rand.NewPCG(o.Seed, uint64(leg)<<32|uint64(i))), tasks: chosen, done: map[string]int{}}
			var failed error
			for round := i; failed == nil && ctx.Err() == nil; round += o.Goroutines {
				if o.Rounds > 0 && round >= share(o.Rounds, o.Legs, leg) || o.Rounds == 0 && !time.Now().Before(end) {
					break
				}
				failed = w.round(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			for name, n := range w.done {
				tasks[name] += n
			}
			if failed != nil && err == nil {
				err = failed
				stop()
			}
		})
	}
	all.Wait()
	return tasks, errors.Join(err, outer.Err())
}

// share returns how many of n rounds leg number i of legs has.
func share(n, legs, i int) int { return (i+1)*n/legs - i*n/legs }
