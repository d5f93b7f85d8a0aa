package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/ferrygpu/ferry"
)

// What Ferry set out to reach, target 3, on an H200.
const (
	pinTarget     = 3
	pinGoal       = 28e9 // bytes a second
	cachedGoal    = 100  // ns
	cachedBytes   = 4096
	cachedSamples = 400_000
)

// SpeedPin measures page-locking of so many bytes, giving them back, and buffers of
// a pool, beside peers, all in turns. Peers are those of bench/peer/pin.cu and
// pin.py; the one named "cached" is measured for buffers that a cache has.
func SpeedPin(g *ferry.GPU, bytes, rounds int, peers []Peer) (results []SpeedResult, err error) {
	p, err := g.PredictPin(bytes, nil)
	if err = errors.Join(err, p.Err); err != nil {
		return nil, err
	}
	c := contest{
		rows:     []figure{{pinTarget, fmt.Sprintf("page-lock %d bytes", bytes), bytes, 0}, {pinTarget, fmt.Sprintf("give back %d bytes", bytes), bytes, 0}},
		entrants: []entrant{{"", func() ([]float64, error) { return nanoseconds(ownOnce(g, bytes)) }}},
	}
	var cached *running
	for _, peer := range peers {
		r, err := peer.start()
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.stop()) }()
		if peer.Name == "cached" {
			cached = r
			continue
		}
		c.entrants = append(c.entrants, entrant{peer.Name, func() ([]float64, error) { return nanoseconds(r.sample(bytes)) }})
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

// nanoseconds are the figures of page-locking and giving back.
func nanoseconds(lock, free time.Duration, err error) ([]float64, error) {
	return []float64{float64(lock), float64(free)}, err
}

// ownOnce is a sample of Ferry.
func ownOnce(g *ferry.GPU, bytes int) (lock, free time.Duration, err error) {
	begin := g.Now()
	h, err := ferry.AllocHost[byte](g, bytes, nil)
	if err != nil {
		return 0, 0, err
	}
	lock = g.Now() - begin
	begin = g.Now()
	err = h.Close()
	return lock, g.Now() - begin, err
}

// speedCached measures a buffer that a pool has, with its Close, by as many
// goroutines as stated.
func speedCached(g *ferry.GPU, peer *running, rounds int) (results []SpeedResult, err error) {
	pool, err := g.NewHostPool(nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	if err := pool.Warm(context.Background(), 8<<20); err != nil {
		return nil, err
	}
	for _, n := range []int{1, 8, 64} {
		var alloc, both, theirs []float64
		for range rounds {
			a, c, err := cachedTimes(pool, n)
			if err != nil {
				return nil, err
			}
			alloc, both = append(alloc, a), append(both, a+c)
			if peer != nil {
				t, _, err := peer.sample(cachedBytes)
				if err != nil {
					return nil, err
				}
				theirs = append(theirs, float64(t))
			}
		}
		r := SpeedResult{Target: pinTarget, What: fmt.Sprintf("buffer of a pool and its Close, %d goroutines", n), Unit: "ns", Ferry: middle(both), Samples: len(both), MAD: spread(both)}
		if peer != nil {
			r.PeerName, r.Peer = "PyTorch, one thread", middle(theirs)
		}
		results = append(results, r.judge(), SpeedResult{Target: pinTarget, What: fmt.Sprintf("buffer of a pool, %d goroutines", n), Unit: "ns", Ferry: middle(alloc),
			Goal: cachedGoal, Samples: len(alloc), MAD: spread(alloc)}.judge())
	}
	return results, nil
}

// cachedBatch is how many buffers a goroutine has at once.
const cachedBatch = 32

// cachedTimes is the processor time of an Alloc and of a Close, in ns, on a pool that
// n goroutines use at once: all of the time that passes counts, for each processor
// that they can keep busy.
func cachedTimes(pool *ferry.HostPool, n int) (alloc, closing float64, err error) {
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
func cachedBatches(pool *ferry.HostPool, batches int) (took [2]time.Duration, err error) {
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
