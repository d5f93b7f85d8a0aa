package softgpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// clockLook is how many steps the virtual clock takes before it looks whether it must stop. A
// look reads the time of this computer.
const clockLook = 4096

// clockSteps bounds one piece of work of the virtual clock. A step is an event in virtual time, or
// a query that a program would have made. Every piece of work has an end, but it can be far: the
// limit of kernels and [Driver.Interrupt] hold for it, as for a kernel.
type clockSteps struct {
	d     *Driver
	n     int
	began time.Time // of the first look
}

// next counts a step. It returns false if the work must stop; then the devices are lost.
func (s *clockSteps) next() bool {
	t := &s.d.sim
	if t.stopped {
		return false
	}
	t.steps++
	if s.n++; s.n%t.look != 0 {
		return true
	}
	if s.began.IsZero() {
		s.began = time.Now()
	}
	switch cause := context.Cause(s.d.kernelCtx); {
	case cause != nil:
		s.stop(cause)
	case t.most > 0 && t.steps > t.most:
		s.stop(fmt.Errorf("more than %d steps", t.most))
	case s.d.limit > 0 && time.Since(s.began) > s.d.limit:
		s.stop(errLimit)
	}
	return !t.stopped
}

// stop ends the virtual clock, and loses the devices.
func (s *clockSteps) stop(cause error) {
	s.d.sim.stopped = true
	if s.d.loss.fault != nil {
		return
	}
	f := &cu.Fault{Result: cu.ErrorLaunchTimeout, Op: "the virtual clock"}
	where := fmt.Sprintf("at %v of profile %s's time it was", nanoseconds(s.d.sim.now), s.d.prof.Name)
	if errors.Is(cause, errLimit) {
		f.Why = fmt.Sprintf("%s stopped after %d steps, longer than the limit of %v: queue less before a wait, correct the profile's times, or raise Options.KernelLimit or %s",
			where, s.n, s.d.limit, LimitVariable)
	} else {
		f.Cause = cause
		f.Why = fmt.Sprintf("%s interrupted after %d steps: %v", where, s.n, cause)
	}
	s.d.loss.fault = f
	s.d.lose(f)
}

// The bounds of a cost, so that any sum of them is finite and the clock can reach its end.
const (
	longestCost = 1e18 // ns, 31 years
	mostUse     = 1e6
)

// bounded returns k within the bounds. A cost that is no number is the longest.
func (k cost) bounded() cost {
	if !(k.ns <= longestCost) {
		k.ns = longestCost
	}
	k.ns = max(0, k.ns)
	for i, use := range k.use {
		if !(use >= 0) {
			use = 0
		}
		k.use[i] = min(use, mostUse)
	}
	return k
}

// nanoseconds returns a virtual time as a Duration, the longest one if it is longer.
func nanoseconds(ns float64) time.Duration {
	if !(ns < math.MaxInt64) {
		return math.MaxInt64
	}
	return time.Duration(ns)
}
