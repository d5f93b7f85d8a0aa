package apimodel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// program is one random program.
type program struct {
	random *rand.Rand
	g      *ferry.GPU
	log    []string // what it has done
	most   int      // elements of a buffer

	careless bool // streams do not wait for each other: a test demands that this is found

	kernel  *ferry.Kernel
	module  *ferry.Module
	memPool *ferry.MemPool // nil if the device has none
	pinned  *ferry.PinnedPool
	events  []*ferry.Event // recorded again and again
	ends    []*ferry.Event // of closed streams

	streams     []*stream
	buffers     []*buffer
	graphs      []*graph
	count       int
	streamCount int
}

func (p *program) say(format string, args ...any) {
	p.log = append(p.log, fmt.Sprintf(format, args...))
}

// Run runs the first steps of the program of a seed on a device. It compares all buffers
// with the model, and closes everything. The log has what the program did.
func Run(g *ferry.GPU, seed uint64, steps int) (log []string, err error) {
	return run(&program{random: rand.New(rand.NewPCG(seed, 21)), g: g}, steps)
}

func run(p *program, steps int) (log []string, err error) {
	p.most = []int{40, 1000, 20000}[p.random.IntN(3)]
	if err = p.begin(); err == nil {
		err = p.steps(steps)
	}
	if err == nil {
		err = p.verifyAll()
	}
	return p.log, errors.Join(err, p.end())
}

// begin makes what every program has.
func (p *program) begin() (err error) {
	if p.module, err = ferry.Load(p.g, []byte(ptx), nil); err != nil {
		return err
	}
	if p.kernel, err = p.module.Kernel("mix"); err != nil {
		return err
	}
	if p.memPool, err = ferry.NewMemPool(p.g, nil); err != nil && !errors.Is(err, cu.ErrorNotSupported) {
		return err
	}
	if p.pinned, err = ferry.NewPinnedPool(p.g, nil); err != nil {
		return err
	}
	for range 3 {
		e, err := ferry.NewEvent(p.g, nil)
		if err != nil {
			return err
		}
		p.events = append(p.events, e)
		if err := p.newStream(); err != nil {
			return err
		}
	}
	for range 4 {
		if err := p.newBuffer(); err != nil {
			return err
		}
	}
	return nil
}

// steps runs random steps.
func (p *program) steps(n int) error {
	for i := range n {
		if err := p.step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

func (p *program) step() error {
	switch k := p.random.IntN(40); {
	case len(p.buffers) < 3 || k < 3 && len(p.buffers) < 12:
		return p.newBuffer()
	case k < 5:
		return p.closeBuffer()
	case k < 6 && len(p.streams) < 6:
		return p.newStream()
	case k < 7:
		return p.closeStream()
	case k < 8:
		return p.wait(p.anyStream())
	case k < 9:
		return p.waitAll()
	case k < 12:
		return p.touch()
	case k < 14:
		return p.readWrite()
	case k < 17:
		return p.batch()
	case k < 18:
		return p.capture()
	case k < 21:
		return p.launchGraph()
	}
	if o := p.anyOperation(true); o != nil {
		return p.queue(p.anyStream(), o)
	}
	return nil
}

// verifyAll compares all buffers with the model.
func (p *program) verifyAll() error {
	var failed error
	for _, b := range slices.Clone(p.buffers) {
		failed = errors.Join(failed, p.verify(b))
	}
	return failed
}

// end closes everything, in a random order where any is allowed.
func (p *program) end() error {
	var closers []func() error
	for _, x := range p.graphs {
		closers = append(closers, x.x.Close)
	}
	for _, b := range p.buffers {
		if b.close != nil {
			closers = append(closers, b.close)
		}
	}
	for _, s := range p.streams {
		closers = append(closers, s.s.Close)
	}
	for _, e := range append(p.events, p.ends...) {
		closers = append(closers, e.Close)
	}
	closers = append(closers, p.memPool.Close, p.pinned.Close, p.module.Close)
	p.random.Shuffle(len(closers), func(i, j int) { closers[i], closers[j] = closers[j], closers[i] })
	var failed error
	for _, c := range closers {
		failed = errors.Join(failed, c())
	}
	return failed
}
