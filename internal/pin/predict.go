package pin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Prediction is what page-locking will take, told beforehand.
type Prediction struct {
	Time  time.Duration
	Huge  bool   // on huge pages
	Error *Error // why it cannot succeed; nil if nothing is known to be in the way
}

// What is page-locked for trial: a little on pages of each size, then more on those
// that were better.
const (
	littleBytes = 16 << 20
	moreBytes   = 256 << 20
)

// worthTrying is from which request on the better pages are found out unasked: that
// costs a few per cent of it, once.
const worthTrying = 4 << 30

// cost is how long a request takes: some time, and some for each byte. The zero
// cost is not known.
type cost struct {
	fixed, perByte float64 // seconds
}

func (c cost) of(bytes uintptr) time.Duration {
	return time.Duration((c.fixed + c.perByte*float64(bytes)) * float64(time.Second))
}

// Predict says what a request will take, and whether it can succeed. The first time
// it page-locks something for trial.
func (e *Engine) Predict(r Request) (Prediction, error) {
	machine := e.machine()
	if err := machine.refuse(r); err != nil {
		return Prediction{Error: err}, nil
	}
	_, c := e.known()
	if c.perByte == 0 {
		if err := e.measure(context.Background(), machine, r); err != nil {
			return Prediction{}, fmt.Errorf("trial: %w", err)
		}
	}
	best, c := e.known()
	return Prediction{Time: c.of(r.Bytes), Huge: machine.Huge && best != smallPages && uint64(r.Bytes) >= machine.HugeBytes}, nil
}

func (e *Engine) known() (pages, cost) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pages, e.cost
}

// learn keeps how long a request took, if it was large enough to tell.
func (e *Engine) learn(bytes uintptr, took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if perByte := (took.Seconds() - e.cost.fixed) / float64(bytes); bytes >= moreBytes && perByte > 0 {
		e.cost.perByte = perByte
	}
}

// choose says whether to take huge pages: if the machine has them, unless a trial
// found them slower.
func (e *Engine) choose(ctx context.Context, machine *Machine, r Request) bool {
	best, _ := e.known()
	if best == untried && r.Bytes >= worthTrying {
		e.trials.Lock()
		best, _, _ = e.try(ctx, machine, r) // what is wrong the request will say
		e.trials.Unlock()
	}
	return machine.Huge && best != smallPages
}

// measure finds what requests cost.
func (e *Engine) measure(ctx context.Context, machine *Machine, r Request) error {
	e.trials.Lock()
	defer e.trials.Unlock()
	if _, c := e.known(); c.perByte != 0 {
		return nil
	}
	best, little, err := e.try(ctx, machine, r)
	if err != nil {
		return err
	}
	if r.Bytes = moreBytes; !e.real {
		r.Bytes = 2 * littleBytes // its costs are exact
	}
	c := cost{perByte: little.Seconds() / littleBytes}
	if machine.refuse(r) == nil {
		more, err := e.timed(ctx, machine, r, best == hugePages)
		if err != nil {
			return err
		}
		if slope := (more - little).Seconds() / float64(r.Bytes-littleBytes); slope > 0 {
			c = cost{max(0, little.Seconds()-slope*littleBytes), slope}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cost = c
	return nil
}

// try finds which pages are better, and how long a little of them takes. e.trials
// is held.
func (e *Engine) try(ctx context.Context, machine *Machine, r Request) (best pages, took time.Duration, err error) {
	r.Bytes = littleBytes
	kinds := []pages{hugePages, smallPages}
	if !machine.Huge {
		kinds = kinds[1:]
	}
	for _, kind := range kinds {
		t, err := e.timed(ctx, machine, r, kind == hugePages)
		if err != nil {
			return untried, 0, err
		}
		if best == untried || t < took {
			best, took = kind, t
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pages = best
	return best, took, nil
}

// timed page-locks for trial and says how long that took.
func (e *Engine) timed(ctx context.Context, machine *Machine, r Request, huge bool) (time.Duration, error) {
	r.Progress = nil
	begin := e.now()
	m, err := e.lock(ctx, machine, r, huge, MaxPiece)
	took := e.now() - begin
	if err != nil {
		return 0, err
	}
	return took, m.Close()
}

// refuse says why a request cannot succeed on the machine; nil if nothing speaks
// against it.
func (m *Machine) refuse(r Request) *Error {
	_, there := m.Node(r.Node)
	bytes := uint64(r.Bytes)
	no := func(result cu.Result, do, why string, args ...any) *Error {
		return &Error{r.Bytes, r.Node, fmt.Sprintf(why, args...), do, result}
	}
	switch {
	case r.Strict && !there:
		return no(cu.ErrorInvalidValue, "ask for one that is there, or none", "there is no NUMA node %d (%s)", r.Node, m.nodeList())
	case bytes > m.Group.Left:
		return no(cu.ErrorOutOfMemory, "raise that limit, or take less: the system would end the process",
			"the control group %s allows %s, of which %s are left", m.Group.Path, sizeText(m.Group.Limit), sizeText(m.Group.Left))
	case bytes > m.Available:
		return no(cu.ErrorOutOfMemory, "free some, or take less: page-locked memory cannot be swapped out", "%s of host memory are available", sizeText(m.Available))
	}
	return nil
}

// nodeList names the nodes of the machine.
func (m *Machine) nodeList() string {
	if len(m.Nodes) == 0 {
		return "the system names none"
	}
	var ids []string
	for _, n := range m.Nodes {
		ids = append(ids, fmt.Sprint(n.ID))
	}
	return "the machine has " + strings.Join(ids, ", ")
}
