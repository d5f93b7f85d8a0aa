package bench

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/measure/bench/serve"
	"github.com/ferrygpu/ferry/internal/origin"
)

// SuiteOptions are the options of [Suite].
type SuiteOptions struct {
	Only   []string // names of parts, or numbers of targets; all but serve if empty
	Rounds int      // samples of each entrant; 0 is 9
	Peers  *Peers   // if nil, only Ferry is measured
	Bytes  int      // of the largest copies on hardware, a quarter of what is page-locked; 0 is 1 GiB
	// ServeTime is how long the part serve takes for each sample; 0 is 5 seconds.
	ServeTime time.Duration
	// Progress, if not nil, is called before each part with the results so far.
	Progress func(part string, soFar *SpeedReport)
}

const suiteRounds = 9

// part is one part of the suite.
type part struct {
	name   string
	target int      // number of Ferry's target, 0 for none
	peers  []string // names of their sources
	run    func(*suite) ([]SpeedResult, error)
	asked  bool // it takes long, so it is only measured if it is named
}

// parts are the parts of the suite, in the order of measurement.
var parts = []part{
	{"link", 1, []string{"link.cu"}, (*suite).link, false},
	{"kernels", 5, []string{"link.cu"}, (*suite).kernels, false},
	{"prefetch", 7, []string{"link.cu"}, (*suite).prefetch, false},
	{"copies", 0, []string{"link.cu"}, (*suite).copies, false},
	{"submitters", 6, []string{"link.cu"}, (*suite).submitters, false},
	{"gpus", 1, []string{"link.cu"}, (*suite).twoGPUs, false},
	{"calls", 6, []string{"calls.c"}, (*suite).calls, false},
	{"stage", 2, []string{"stage.cu", "stage.py"}, (*suite).stage, false},
	{"sizes", 2, []string{"stage.cu"}, (*suite).sizes, false},
	{"requests", 2, []string{"stage.cu"}, (*suite).requests, false},
	{"pipe", 4, []string{"pipe.cu"}, (*suite).pipe, false},
	{"pin", 3, []string{"pin.cu", "pin.py"}, (*suite).pin, false},
	{"serve", 0, []string{"serve.cu"}, (*suite).serve, true},
}

// Parts returns the names of the parts of [Suite].
func Parts() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// chosen returns the parts with the given names or targets. If only is empty, it returns all
// parts that need not be asked for.
func chosen(only []string) (some []part, err error) {
	if len(only) == 0 {
		return slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return p.asked }), nil
	}
	for _, word := range only {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.is(word) }) {
			return nil, fmt.Errorf("there is no part or target %q: the parts are %v", word, Parts())
		}
	}
	for _, p := range parts {
		if slices.ContainsFunc(only, p.is) {
			some = append(some, p)
		}
	}
	return some, nil
}

func (p part) is(word string) bool {
	return word == p.name || p.target > 0 && word == strconv.Itoa(p.target)
}

// PeersOf returns the names of the sources of the peers for the parts in only, which is as
// in [SuiteOptions].
func PeersOf(only []string) (names []string, err error) {
	some, err := chosen(only)
	for _, p := range some {
		names = append(names, p.peers...)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// suite is one run of the suite.
type suite struct {
	gpus   []*ferry.GPU
	g      *ferry.GPU // the first of gpus
	rounds int
	peers  *Peers
	size   int           // bytes of a buffer
	served time.Duration // for each sample of serve
	shared *rig          // nil until it is needed
}

// Suite measures Ferry and its peers. All parts run on the first of gpus, except for the
// part with two GPUs. Samples are taken in turns, with new data, and are verified. The
// figures are medians. If a part fails, the report has its results before the failure, and
// the other parts are still measured.
func Suite(gpus []*ferry.GPU, o *SuiteOptions) (report *SpeedReport, err error) {
	if o == nil {
		o = &SuiteOptions{}
	}
	some, err := chosen(o.Only)
	if err != nil {
		return nil, err
	}
	s := &suite{gpus: gpus, g: gpus[0], rounds: o.Rounds, peers: o.Peers, size: cmp.Or(o.Bytes, 1<<30), served: o.ServeTime}
	if s.rounds == 0 {
		s.rounds = suiteRounds
	}
	if s.g.Emulated() {
		s.size = 2 << 20 // a virtual clock has no noise, so small buffers are enough
	}
	defer func() { err = errors.Join(err, s.close()) }()
	report = &SpeedReport{Schema: SpeedSchema, Machine: machine(gpus)}
	for _, p := range some {
		if o.Progress != nil {
			o.Progress(p.name, report)
		}
		results, failed := p.run(s)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.name, failed))
		}
		report.Results = append(report.Results, results...)
	}
	return report, err
}

// close closes the rig and stops its peer.
func (s *suite) close() (err error) {
	if s.shared == nil {
		return nil
	}
	if s.shared.peer != nil {
		err = s.shared.peer.stop()
	}
	return errors.Join(err, s.shared.undo.close())
}

// rig returns the rig of the suite. It is created when it is first needed.
func (s *suite) rig() (*rig, error) {
	if s.shared != nil {
		return s.shared, nil
	}
	r, err := newRig(s.g, s.size)
	for _, p := range s.peers.peer("C", "link.cu", strconv.Itoa(s.size)) {
		if err == nil {
			r.peer, err = p.start()
		}
	}
	if err != nil {
		return nil, errors.Join(err, r.undo.close())
	}
	s.shared = r
	return r, nil
}

// run runs contests that use the rig.
func (s *suite) run(make func(r *rig) ([]contest, error)) ([]SpeedResult, error) {
	r, err := s.rig()
	if err != nil {
		return nil, err
	}
	all, err := make(r)
	if err != nil {
		return nil, err
	}
	return runAll(all, s.rounds)
}

func (s *suite) link() ([]SpeedResult, error) {
	return s.run(func(r *rig) ([]contest, error) { return linkContests(r, s.size), nil })
}

func (s *suite) kernels() ([]SpeedResult, error) {
	return s.run(func(r *rig) ([]contest, error) { return kernelContests(r, s.size), nil })
}

func (s *suite) prefetch() ([]SpeedResult, error) {
	return s.run(func(r *rig) ([]contest, error) {
		c, err := prefetchContest(r, s.size)
		return []contest{c}, err
	})
}

func (s *suite) copies() ([]SpeedResult, error) {
	return s.run(func(r *rig) ([]contest, error) { return copiesContests(r, s.size), nil })
}

func (s *suite) submitters() ([]SpeedResult, error) {
	return s.run(func(r *rig) ([]contest, error) {
		c, err := submittersContest(r, submitters, copiesPerSubmitter)
		return []contest{c}, err
	})
}

// twoGPUs measures nothing if there is only one GPU.
func (s *suite) twoGPUs() ([]SpeedResult, error) {
	if len(s.gpus) < 2 {
		return nil, nil
	}
	return s.run(func(r *rig) ([]contest, error) {
		x, err := newTwoGPUs(r, s.gpus[1], s.size)
		if err != nil {
			return nil, err
		}
		return x.contests(s.size), nil
	})
}

func (s *suite) calls() ([]SpeedResult, error) {
	c, rounds := s.peers.command("calls.c"), s.rounds
	if c == nil {
		return SpeedCalls(s.g, "", rounds)
	}
	return SpeedCalls(s.g, c[0], rounds)
}

// stage measures slices of several sizes, and memory on huge pages.
func (s *suite) stage() ([]SpeedResult, error) {
	var cases []StageCase
	for n := 64 << 10; n <= s.size/4; n *= 16 {
		cases = append(cases, StageCase{Bytes: n, In: true}, StageCase{Bytes: n})
	}
	for _, c := range []StageCase{{Bytes: s.size / 4, Huge: true}, {Bytes: s.size}} {
		cases = append(cases, StageCase{Bytes: c.Bytes, In: true, Huge: c.Huge}, c)
	}
	peers := append(s.peers.peer("C", "stage.cu"), s.peers.peer("Python", "stage.py")...)
	return SpeedStage(s.g, cases, s.rounds, peers)
}

// sizes measures slices of all powers of two.
func (s *suite) sizes() ([]SpeedResult, error) {
	return SpeedSizes(s.g, s.size, s.rounds, s.peers.peer("C", "stage.cu"))
}

// requests measures slices that are as large as a server's requests.
func (s *suite) requests() ([]SpeedResult, error) {
	return SpeedRequests(s.g, s.rounds, s.peers.peer("C", "stage.cu"))
}

// pipe measures pipelines with a short kernel, and with one that takes longer than its
// copies.
func (s *suite) pipe() ([]SpeedResult, error) {
	cases := []PipeCase{{s.size, 1, "both"}, {s.size / 16, 1, "both"}, {s.size, 8192, "kernel"}}
	if s.g.Emulated() {
		cases[2].Rounds = 4
	}
	ptx, err := s.peers.file("work.ptx", workPTX)
	if err != nil {
		return nil, err
	}
	return SpeedPipe(s.g, cases, s.rounds, s.peers.peer("C", "pipe.cu", ptx))
}

// serve measures many goroutines at once.
func (s *suite) serve() ([]SpeedResult, error) {
	d := s.served
	if d == 0 {
		d = 5 * time.Second
	}
	cells := serve.Cells()
	if s.g.Emulated() {
		cells, d = fewCells, min(d, 20*time.Millisecond) // times of this CPU, which say nothing
	}
	return SpeedServe(s.g, cells, d, s.rounds, s.peers.command("serve.cu"))
}

// pin measures page-locking, by default of 4 GiB on hardware.
func (s *suite) pin() ([]SpeedResult, error) {
	size := 4 * s.size
	return SpeedPin(s.g, size, s.rounds, slices.Concat(
		s.peers.peer("cuMemHostAlloc", "pin.cu", "alloc"),
		s.peers.peer("C, 16 threads on huge pages, one registration", "pin.cu", "register"),
		s.peers.peer("PyTorch", "pin.py"),
		s.peers.peer("PyTorch, registering with 8 threads", "pin.py", "register"),
		s.peers.peer(CachedPeer+"PyTorch, one thread", "pin.py", "cached"),
		s.peers.peer(CachedPeer+"C, a list behind a mutex, one thread", "pin.cu", "cached")))
}

// machine describes the machine of the measurement.
func machine(gpus []*ferry.GPU) map[string]string {
	m := map[string]string{
		"device": gpus[0].Name(),
		"host":   fmt.Sprintf("%d processors, %s", runtime.NumCPU(), runtime.GOOS+"/"+runtime.GOARCH),
		"go":     runtime.Version(),
		"date":   time.Now().UTC().Format(time.DateOnly),
		"commit": origin.Commit(),
	}
	if len(gpus) > 1 {
		m["device"] = fmt.Sprintf("%d x %s", len(gpus), gpus[0].Name())
	}
	if v, err := gpus[0].Driver().DriverGetVersion(); err == nil {
		m["cuda"] = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	if gpus[0].Emulated() {
		m["emulated"] = gpus[0].Profile()
	} else if v := origin.Release(); v != "" {
		m["driver"] = v
	}
	return m
}
