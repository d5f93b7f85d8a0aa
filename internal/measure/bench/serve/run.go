package serve

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ferrygpu/ferry"
)

// warmUp is the number of requests of each goroutine before the clock starts.
const warmUp = 20

// Run measures a cell for some time. It returns an error if a result is wrong.
func Run(g *ferry.GPU, c Cell, d time.Duration) (f *Figures, err error) {
	switch err := c.check(); {
	case err != nil:
		return nil, fmt.Errorf("serve %v: %w", c, err)
	case d <= 0:
		return nil, fmt.Errorf("serve %v for %v: the time must be positive", c, d)
	}
	var undo closers
	defer func() { err = errors.Join(err, undo.close()) }()
	workers, err := newWorkers(g, c, &undo)
	if err != nil {
		return nil, fmt.Errorf("serve %v: %w", c, err)
	}
	if err := undo.add(saveCPU(g, c.SaveCPU), func() error { return saveCPU(g, false) }); err != nil {
		return nil, fmt.Errorf("serve %v: %w", c, err)
	}
	if c.GC {
		defer runtime.KeepAlive(pointers(heapOf(g)))
	}
	f, err = measure(workers, c, d)
	if err != nil {
		return nil, fmt.Errorf("serve %v: %w", c, err)
	}
	f.Device = g.Name()
	return f, nil
}

// newWorkers makes the workers of a cell.
func newWorkers(g *ferry.GPU, c Cell, undo *closers) (workers []*worker, err error) {
	m, err := load(g)
	if undo.add(err, m.Close) != nil {
		return nil, err
	}
	k, err := m.Kernel("increment")
	if err != nil {
		return nil, err
	}
	var p *pinnedPool
	if c.Kind == "pool" {
		if p, err = newPool(g); undo.add(err, p.Close) != nil {
			return nil, err
		}
	}
	for range c.Goroutines {
		w, err := newWorker(g, c, k, p, undo)
		if err != nil {
			return nil, err
		}
		if p == nil {
			w.fill(len(workers))
		}
		workers = append(workers, w)
	}
	return workers, nil
}

// measure starts all goroutines at once, and returns the figures when all have ended.
func measure(workers []*worker, c Cell, d time.Duration) (*Figures, error) {
	var ready, ended sync.WaitGroup
	ready.Add(len(workers))
	barrier := make(chan struct{})
	var start time.Time
	for _, w := range workers {
		ended.Go(func() {
			for i := 0; i < warmUp && w.err == nil; i++ {
				w.err = w.request()
			}
			ready.Done()
			<-barrier
			if w.err == nil {
				w.serve(start, d)
			}
		})
	}
	ready.Wait()
	stop := func() {}
	runtime.GC()
	before := readUsage()
	start = time.Now()
	close(barrier)
	if c.GC {
		stop = collect()
	}
	ended.Wait()
	took := time.Since(start)
	after := readUsage()
	stop()
	f := &Figures{Program: "ferry", Cell: c.String(), Seconds: d.Seconds(), Threads: threads(), Go: runtime.Version(), Processors: runtime.NumCPU()}
	f.CPU = (after.cpu - before.cpu).Seconds() / took.Seconds()
	f.GCs = int(readUsage().gcs - before.gcs)
	all, err := f.count(workers)
	f.Allocs = float64(after.mallocs-before.mallocs) / float64(max(all, 1))
	return f, err
}

// count fills in the figures of the workers, and verifies the results. It returns the number
// of all requests.
func (f *Figures) count(workers []*worker) (all uint64, err error) {
	var sum histogram
	f.Fewest = math.MaxUint64
	for i, w := range workers {
		if w.err == nil {
			w.err = w.verify()
		}
		if w.err != nil {
			return 0, fmt.Errorf("goroutine %d: %w", i, w.err)
		}
		sum.merge(&w.latency)
		f.Requests += w.done
		f.Fewest, f.Most = min(f.Fewest, w.done), max(f.Most, w.done)
	}
	f.PerSecond = float64(f.Requests) / f.Seconds
	f.P50, f.P99, f.P999 = micros(sum.quantile(0.5)), micros(sum.quantile(0.99)), micros(sum.quantile(0.999))
	f.Longest = micros(sum.longest)
	return f.Requests + uint64(len(workers)), nil
}

// usage is what the process has used so far.
type usage struct {
	cpu     time.Duration
	mallocs uint64
	gcs     uint32
}

func readUsage() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{cpuTime(), m.Mallocs, m.NumGC}
}

// threads returns the number of threads of the process, 0 if it is not known.
func threads() int {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if number, ok := strings.CutPrefix(line, "Threads:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(number))
			return n
		}
	}
	return 0
}

// closers are functions that close objects.
type closers []func() error

// add adds a function that closes the object just made, unless err is set. It returns err.
func (c *closers) add(err error, f func() error) error {
	if err == nil {
		*c = append(*c, f)
	}
	return err
}

// close closes the objects in reverse order.
func (c closers) close() (err error) {
	for _, f := range slices.Backward(c) {
		err = errors.Join(err, f())
	}
	return err
}
