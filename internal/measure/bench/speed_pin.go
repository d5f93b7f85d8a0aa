package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/bridge"
)

// Ferry's target 3 and its goals, on an H200.
const (
	pinTarget     = 3
	pinGoal       = 28e9 // bytes per second
	cachedGoal    = 100  // ns
	cachedBytes   = 4096
	cachedSamples = 400_000
)

// CachedPeer begins the names of peers of [SpeedPin] that are compared with the pool.
const CachedPeer = "cached: "

// SpeedPin measures page-locking and freeing of the given bytes, and buffers of a pool, and
// compares them with peers. The peers are internal/measure/bench/peer/pin.cu and pin.py. Those whose
// names begin with CachedPeer are compared with the pool.
func SpeedPin(g *ferry.GPU, bytes, rounds int, peers []Peer) (results []SpeedResult, err error) {
	p, err := bridge.PredictPin(g, bytes, nil)
	if err = errors.Join(err, p.Err); err != nil {
		return nil, err
	}
	var undo closers
	defer func() { err = errors.Join(err, undo.close()) }()
	started, err := startAll(peers, &undo)
	if err != nil {
		return nil, err
	}
	c := contest{
		rows:     []figure{{pinTarget, fmt.Sprintf("page-lock %d bytes", bytes), bytes, 0}, {pinTarget, fmt.Sprintf("give back %d bytes", bytes), bytes, 0}},
		entrants: []entrant{{"", func() ([]float64, error) { return ownOnce(g, bytes) }}},
	}
	var cached []*running
	for _, r := range started {
		if strings.HasPrefix(r.Name, CachedPeer) {
			cached = append(cached, r)
			continue
		}
		c.entrants = append(c.entrants, r.entrant(r.Name, strconv.Itoa(bytes)))
	}
	if results, err = c.run(rounds); err != nil {
		return nil, err
	}
	for i := range results {
		if results[i].What == c.rows[0].what {
			results[i].Goal = pinGoal
			results[i] = results[i].judge()
		}
	}
	results = append(results, SpeedResult{Target: pinTarget, What: fmt.Sprintf("prediction of page-locking %d bytes, beside the median", bytes), Unit: "ns",
		Ferry: float64(p.Time), PeerName: "measured", Peer: float64(bytes) / results[0].Ferry * 1e9, Samples: 1}.judge())
	more, err := speedCached(g, cached, rounds)
	return append(results, more...), err
}

// ServePin is Ferry as a peer of [SpeedPin] in another process: it answers requests from in on
// out. what is "pin", or "cached" for a buffer of a pool and one goroutine.
func ServePin(g *ferry.GPU, what string, in io.Reader, out io.Writer) (err error) {
	pool, err := ferry.NewPinnedPool(g, nil)
	if err == nil {
		err = pool.Warm(context.Background(), 8<<20)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		times := make([]float64, 2)
		if n, failed := strconv.Atoi(lines.Text()); failed != nil {
			err = failed
		} else if what == "pin" {
			times, err = ownOnce(g, n)
		} else {
			alloc, closing, failed := cachedTimes(pool, 1)
			times[0], err = alloc+closing, failed
		}
		if err == nil {
			_, err = fmt.Fprintf(out, "%.1f %.1f\n", times[0], times[1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ownOnce takes a sample of Ferry.
func ownOnce(g *ferry.GPU, bytes int) ([]float64, error) {
	begin := g.Now()
	h, err := ferry.AllocHost[byte](g, bytes, nil)
	if err != nil {
		return nil, err
	}
	locked := g.Now()
	err = h.Close()
	return []float64{float64(locked - begin), float64(g.Now() - locked)}, err
}

// speedCached measures the allocation and the Close of a buffer that a pool has cached,
// with different numbers of goroutines.
func speedCached(g *ferry.GPU, peers []*running, rounds int) (results []SpeedResult, err error) {
	pool, err := ferry.NewPinnedPool(g, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	if err := pool.Warm(context.Background(), 8<<20); err != nil {
		return nil, err
	}
	for _, n := range []int{1, 8, 64} {
		var allocs []float64
		c := contest{rows: []figure{{pinTarget, fmt.Sprintf("buffer of a pool and its Close, %d goroutines", n), 0, 0}}}
		c.entrants = []entrant{{"", func() ([]float64, error) {
			alloc, closing, err := cachedTimes(pool, n)
			allocs = append(allocs, alloc)
			return []float64{alloc + closing}, err
		}}}
		for _, peer := range peers {
			c.entrants = append(c.entrants, entrant{strings.TrimPrefix(peer.Name, CachedPeer), func() ([]float64, error) {
				both, err := peer.ask(strconv.Itoa(cachedBytes))
				return both[:min(1, len(both))], err // the second number is 0
			}})
		}
		some, err := c.run(rounds)
		if err != nil {
			return nil, err
		}
		alone := figure{pinTarget, fmt.Sprintf("buffer of a pool, %d goroutines", n), 0, 0}.result(allocs[1:], "", nil, 0)
		alone.Goal = cachedGoal
		results = append(append(results, some...), alone.judge())
	}
	return results, nil
}

// cachedBatch is how many buffers a goroutine has at once.
const cachedBatch = 32

// cachedTimes returns the processor time of an Alloc and of a Close, in ns, of a pool that n
// goroutines use concurrently. It is the elapsed time, multiplied by the number of
// processors that they can keep busy.
func cachedTimes(pool *ferry.PinnedPool, n int) (alloc, closing float64, err error) {
	var all sync.WaitGroup
	times := make([][2]time.Duration, n)
	failed := make([]error, n)
	batches := cachedSamples / cachedBatch / n
	begin := time.Now()
	for i := range n {
		all.Go(func() { times[i], failed[i] = cachedBatches(pool, batches) })
	}
	all.Wait()
	both := float64(time.Since(begin)) * float64(min(n, runtime.GOMAXPROCS(0))) / float64(n*batches*cachedBatch)
	var first, second time.Duration
	for _, t := range times {
		first, second = first+t[0], second+t[1]
	}
	alloc = both * float64(first) / float64(first+second)
	return alloc, both - alloc, errors.Join(failed...)
}

// cachedBatches allocates and closes batches of buffers, and times both.
func cachedBatches(pool *ferry.PinnedPool, batches int) (took [2]time.Duration, err error) {
	var hosts [cachedBatch]ferry.Host[byte]
	for range batches {
		begin := time.Now()
		for i := range hosts {
			if err := hosts[i].Alloc(pool, cachedBytes); err != nil {
				return took, err
			}
		}
		middle := time.Now()
		for i := range hosts {
			if err := hosts[i].Close(); err != nil {
				return took, err
			}
		}
		took[0] += middle.Sub(begin)
		took[1] += time.Since(middle)
	}
	return took, nil
}
