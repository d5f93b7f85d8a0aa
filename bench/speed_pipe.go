package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/parallel"
)

// workPTX has the kernel of pipelines, work.cu is its source.
//
//go:embed work.ptx
var workPTX string

// What Ferry set out to reach, target 4: of both directions at once where the kernel is
// light, of the kernel's own time where it is heavy.
const (
	pipeTarget = 4
	pipeGoal   = 0.97
)

// PipeCase is a size and a kernel's work of [SpeedPipe].
type PipeCase struct {
	Bytes, Rounds, Samples int
	// Of is the peer's method whose figure is the limit: "both", or "kernel".
	Of string
}

// Ferry's methods: what the ends are.
var pipeMethods = []string{"page-locked", "page-locked, in place", "zero-copy", "plain slices"}

// SpeedPipe measures pipelines, in + kernel + out, beside a peer, bench/peer/pipe.cu,
// which may be missing. All are taken in turns. The result of each is verified.
func SpeedPipe(g *ferry.GPU, cases []PipeCase, peer *Peer) (results []SpeedResult, err error) {
	r, err := newPipeRun(g, cases)
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	defer func() { err = errors.Join(err, r.close()) }()
	order := pipeMethods
	var other *running
	if peer != nil {
		if other, err = peer.start(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, other.stop()) }()
		line, err := other.out.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("peer %s: %w", peer.Name, err)
		}
		order = append(strings.Fields(line), order...)
	}
	for _, c := range cases {
		samples := map[string][]float64{}
		for turn := range c.Samples + 1 {
			for _, i := range rand.Perm(len(order)) {
				ns, err := r.sample(order[i], c, other)
				if err != nil {
					return nil, fmt.Errorf("%s of %d bytes, %d rounds: %w", order[i], c.Bytes, c.Rounds, err)
				}
				if turn > 0 { // the first is for warming up
					samples[order[i]] = append(samples[order[i]], float64(c.Bytes)/ns*1e9)
				}
			}
		}
		results = append(results, c.results(samples)...)
	}
	return results, nil
}

// results is each method of Ferry beside each of the peer.
func (c PipeCase) results(samples map[string][]float64) (all []SpeedResult) {
	for _, m := range pipeMethods {
		own := samples[m]
		r := SpeedResult{Target: pipeTarget, Unit: "bytes_per_s", Ferry: middle(own), Samples: len(own), MAD: spread(own),
			What: fmt.Sprintf("in + kernel of %d rounds + out, %d bytes each way, %s", c.Rounds, c.Bytes, m)}
		if len(samples) == len(pipeMethods) {
			all = append(all, r.judge())
			continue
		}
		for _, p := range []string{"chunks", c.Of} {
			r.PeerName, r.Peer, r.PeerMAD, r.GoalRatio = p, middle(samples[p]), spread(samples[p]), 0
			if p == c.Of && strings.HasPrefix(m, "page-locked") {
				r.GoalRatio = pipeGoal
			}
			all = append(all, r.judge())
		}
	}
	return all
}

// pipeRun is Ferry's side.
type pipeRun struct {
	g                 *ferry.GPU
	code              *ferry.Module
	work              *ferry.Kernel
	in, out           *ferry.Host[float32]
	plainIn, plainOut []float32
	pipes             map[string]*ferry.Pipeline
	rounds            uint32
	turn              int
}

func newPipeRun(g *ferry.GPU, cases []PipeCase) (*pipeRun, error) {
	most := 0
	for _, c := range cases {
		most = max(most, c.Bytes/4)
	}
	r := &pipeRun{g: g, pipes: map[string]*ferry.Pipeline{}, plainIn: make([]float32, most), plainOut: make([]float32, most)}
	var err error
	if r.code, err = g.Load([]byte(workPTX)); err != nil {
		return r, err
	}
	if r.work, err = r.code.Kernel("work"); err != nil {
		return r, err
	}
	o := &ferry.HostOptions{Mapped: true}
	if r.in, err = ferry.AllocHost[float32](g, most, o); err != nil {
		return r, err
	}
	r.out, err = ferry.AllocHost[float32](g, most, o)
	for _, m := range pipeMethods {
		r.pipes[m] = &ferry.Pipeline{GPU: g, Step: r.step, InPlace: strings.HasSuffix(m, "in place"), Once: m == "zero-copy"}
	}
	return r, err
}

// step is the kernel on a chunk.
func (r *pipeRun) step(s *ferry.Stream, c *ferry.Chunk) error {
	return s.Launch(r.work, ferry.Grid(c.Len/4, 256), c.Out[0], c.In[0], uint64(c.Len), r.rounds)
}

func (r *pipeRun) close() error {
	var all []error
	for _, p := range r.pipes {
		all = append(all, p.Close())
	}
	return errors.Join(append(all, r.in.Close(), r.out.Close(), r.code.Close())...)
}

// sample is the nanoseconds of one run of a method, Ferry's or the peer's.
func (r *pipeRun) sample(method string, c PipeCase, peer *running) (ns float64, err error) {
	p, own := r.pipes[method]
	if own {
		return r.own(p, method, c)
	}
	if _, err = fmt.Fprintln(peer.in, method, c.Rounds, c.Bytes); err == nil {
		_, err = fmt.Fscanln(peer.out, &ns)
	}
	if err == nil && ns <= 0 {
		err = errWrongResult
	}
	return ns, err
}

var errWrongResult = errors.New("the result is wrong")

// own is a sample of Ferry, on fresh data to poisoned memory, every element compared.
func (r *pipeRun) own(p *ferry.Pipeline, method string, c PipeCase) (float64, error) {
	n := c.Bytes / 4
	in, out := r.in.Slice()[:n], r.out.Slice()[:n]
	p.In, p.Out = []ferry.End{r.in.Range(0, n)}, []ferry.End{r.out.Range(0, n)}
	if method == "plain slices" {
		in, out = r.plainIn[:n], r.plainOut[:n]
		p.In, p.Out = []ferry.End{ferry.Plain(in)}, []ferry.End{ferry.Plain(out)}
	}
	r.turn++
	r.rounds = uint32(c.Rounds)
	parallel.For(n, func(from, to int) {
		for i := from; i < to; i++ {
			in[i], out[i] = float32((i+r.turn)%1009), -1
		}
	})
	begin := r.g.Now()
	if _, err := p.Run(context.Background()); err != nil {
		return 0, err
	}
	took := r.g.Now() - begin
	var wrong atomic.Int64
	parallel.For(n, func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != in[i]+float32(c.Rounds) {
				wrong.Add(1)
			}
		}
	})
	if wrong.Load() > 0 {
		return 0, errWrongResult
	}
	return float64(took), nil
}
