package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/workers"
	"github.com/ferrygpu/ferry/pipeline"
)

// workPTX has the kernel of the pipelines. Its source is work.cu.
//
//go:embed work.ptx
var workPTX string

// Ferry's target 4 and its goal. If the kernel is short, it is a ratio to the bandwidth
// of both directions at once. If it is long, it is a ratio to the kernel's own time.
const (
	pipeTarget = 4
	pipeGoal   = 0.97
)

// PipeCase is a case of [SpeedPipe]: a size and the number of the kernel's rounds.
type PipeCase struct {
	Bytes, Rounds int
	// Of is the peer's method whose figure is the limit: "both", or "kernel".
	Of string
}

// pipeMethods are Ferry's methods, named after the endpoints.
var pipeMethods = []string{"page-locked", "page-locked, in place", "zero-copy", "plain slices"}

// SpeedPipe measures pipelines of copy in, kernel and copy out, and compares them with the
// peer internal/measure/bench/peer/pipe.cu, if it is available. The result of each sample is
// verified.
func SpeedPipe(g *ferry.GPU, cases []PipeCase, samples int, peers []Peer) (results []SpeedResult, err error) {
	var undo closers
	defer func() { err = errors.Join(err, undo.close()) }()
	r, err := newPipeRun(g, cases)
	undo.add(nil, r.close)
	if err != nil {
		return nil, err
	}
	started, err := startAll(peers, &undo)
	if err != nil {
		return nil, err
	}
	var all []contest
	for _, c := range cases {
		x := r.contest(c)
		for _, p := range started {
			x.entrants = append(x.entrants, p.entrant("chunks", c.line("chunks")), p.entrant(c.Of, c.line(c.Of)))
		}
		all = append(all, x)
	}
	return runAll(all, samples)
}

// line returns the request to the peer.
func (c PipeCase) line(method string) string { return fmt.Sprint(method, " ", c.Rounds, " ", c.Bytes) }

// contest returns a contest with Ferry's methods. Those on page-locked memory have a goal.
func (r *pipeRun) contest(c PipeCase) contest {
	x := contest{goal: func(row figure, peer string) float64 {
		if peer != c.Of {
			return 0
		}
		return row.goal
	}}
	for _, m := range pipeMethods {
		row := figure{pipeTarget, fmt.Sprintf("in + kernel of %d rounds + out, %d bytes each way, %s", c.Rounds, c.Bytes, m), c.Bytes, 0}
		if strings.HasPrefix(m, "page-locked") {
			row.goal = pipeGoal
		}
		x.rows = append(x.rows, row)
		x.entrants = append(x.entrants, entrant{"", func() ([]float64, error) { return r.sample(m, c) }})
	}
	return x
}

// pipeRun has the objects for Ferry's samples.
type pipeRun struct {
	g                 *ferry.GPU
	code              *ferry.Module
	work              *ferry.Kernel
	in, out           *ferry.Host[float32]
	sliceIn, sliceOut []float32
	pipes             map[string]*pipeline.Pipeline // by method
	rounds            uint32
	turn              int // counts samples, so that each has new data
}

func newPipeRun(g *ferry.GPU, cases []PipeCase) (*pipeRun, error) {
	most := 0
	for _, c := range cases {
		most = max(most, c.Bytes/4)
	}
	r := &pipeRun{g: g, pipes: map[string]*pipeline.Pipeline{}, sliceIn: make([]float32, most), sliceOut: make([]float32, most)}
	var err error
	if r.code, err = ferry.Load(g, []byte(workPTX), nil); err != nil {
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
		r.pipes[m] = &pipeline.Pipeline{GPU: g, Step: r.step, InPlace: strings.HasSuffix(m, "in place"), Once: m == "zero-copy"}
	}
	return r, err
}

// step launches the kernel on a chunk.
func (r *pipeRun) step(s *ferry.Stream, c *pipeline.Chunk) error {
	return s.Launch(r.work, ferry.Cover(c.Len/4, 256), c.Out[0], c.In[0], uint64(c.Len), r.rounds)
}

func (r *pipeRun) close() error {
	var all []error
	for _, p := range r.pipes {
		all = append(all, p.Close())
	}
	return errors.Join(append(all, r.in.Close(), r.out.Close(), r.code.Close())...)
}

// sample takes a sample of Ferry with new data and a poisoned destination, and compares
// every element.
func (r *pipeRun) sample(method string, c PipeCase) ([]float64, error) {
	n, p := c.Bytes/4, r.pipes[method]
	in, out := r.in.Slice()[:n], r.out.Slice()[:n]
	p.In, p.Out = []pipeline.End{r.in.Range(0, n)}, []pipeline.End{r.out.Range(0, n)}
	if method == "plain slices" {
		in, out = r.sliceIn[:n], r.sliceOut[:n]
		p.In, p.Out = []pipeline.End{ferry.Pageable(in)}, []pipeline.End{ferry.Pageable(out)}
	}
	r.turn++
	r.rounds = uint32(c.Rounds)
	workers.For(n, func(from, to int) {
		for i := from; i < to; i++ {
			in[i], out[i] = float32((i+r.turn)%1009), -1
		}
	})
	begin := r.g.Now()
	if _, err := p.Run(context.Background()); err != nil {
		return nil, err
	}
	took := r.g.Now() - begin
	return []float64{float64(took)}, firstWrong(n, func(i, end int) int {
		for i < end && out[i] == in[i]+float32(c.Rounds) {
			i++
		}
		return i
	})
}
