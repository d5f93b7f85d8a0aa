package cutest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// maxHangs is the number of cases that may hang before the rest is not run.
const maxHangs = 3

// suite is one run of the cases on one driver.
type suite struct {
	open     func(testing.TB) cu.Driver
	d        cu.Driver
	devices  []cu.Device
	primary  map[cu.Device]cu.Context
	programs map[cu.Context]*program
	results  []result
	hangs    int
	times    times
	parent   testing.TB
	isolated bool // for one case that may make the driver unusable
}

// result is a line of the JSON document.
type result struct {
	ID       string         `json:"id"`
	Rule     string         `json:"rule"`
	Source   string         `json:"source"`
	Result   string         `json:"result"`
	Reason   string         `json:"reason,omitempty"`
	MS       float64        `json:"ms"`
	Observed map[string]any `json:"observed,omitempty"`
}

// Run runs every case as a subtest of t. It calls open once, again after a case that
// hung, and on an emulated device for each case that loses the device. The driver that
// open returns need not be initialized. open must close it with t.Cleanup if necessary.
//
// Device 0 is tested, and device 1 in the cases that need two. Run retains primary
// contexts. Nobody else in the process may hold them when it starts.
//
// On hardware a case that loses the device, or that needs an environment of its own,
// runs in a process of its own. That process is the test binary, started again to run t
// for that case.
func Run(t *testing.T, open func(t testing.TB) cu.Driver) {
	t.Helper()
	if id, ok := childOf(); ok {
		runChecks(t, open, id, allChecks())
		return
	}
	run(t, open, allChecks())
}

func run(t *testing.T, open func(t testing.TB) cu.Driver, checks []check) *suite {
	t.Helper()
	s := &suite{open: open, times: defaultTimes, parent: t}
	s.start(t)
	defer s.stop(t)
	for _, k := range checks {
		t.Run(k.id, func(t *testing.T) { s.runSubtest(t, k) })
	}
	s.writeJSON(t)
	return s
}

// start opens the driver and lists the devices.
func (s *suite) start(t testing.TB) {
	t.Helper()
	s.d = s.open(t)
	s.primary = map[cu.Device]cu.Context{}
	s.programs = map[cu.Context]*program{}
	if err := s.d.Init(0); err != nil {
		t.Fatalf("init: %v", err)
	}
	n, err := s.d.DeviceGetCount()
	if err != nil || n < 1 {
		t.Fatalf("device count: %d, %v; the suite needs a device", n, err)
	}
	s.devices = s.devices[:0]
	for i := range n {
		dev, err := s.d.DeviceGet(i)
		if err != nil {
			t.Fatalf("device %d of %d: %v", i, n, err)
		}
		s.devices = append(s.devices, dev)
	}
}

// stop releases the primary contexts.
func (s *suite) stop(t testing.TB) {
	if s.isolated {
		return
	}
	for dev := range s.primary {
		s.drop(t, dev)
	}
}

// forget removes the primary context of a device, which no longer exists, from s.
func (s *suite) forget(dev cu.Device) {
	delete(s.programs, s.primary[dev])
	delete(s.primary, dev)
}

func (s *suite) drop(t testing.TB, dev cu.Device) {
	s.forget(dev)
	if err := s.d.DevicePrimaryCtxRelease(dev); err != nil {
		t.Errorf("release the primary context of device %d: %v", dev, err)
	}
}

// context returns the primary context of a device, and retains it at first.
func (s *suite) context(dev cu.Device) (cu.Context, error) {
	if ctx, ok := s.primary[dev]; ok {
		return ctx, nil
	}
	// Under unified addressing mapping is always on, and hardware refuses the flag.
	// Elsewhere the flag is necessary.
	if unified, err := s.d.DeviceGetAttribute(cu.DeviceAttributeUnifiedAddressing, dev); err != nil || unified == 0 {
		if err := s.d.DevicePrimaryCtxSetFlags(dev, cu.CtxMapHost); err != nil {
			return 0, fmt.Errorf("set the flags of the primary context of device %d: %w", dev, err)
		}
	}
	ctx, err := s.d.DevicePrimaryCtxRetain(dev)
	if err != nil {
		return 0, fmt.Errorf("retain the primary context of device %d: %w", dev, err)
	}
	s.primary[dev] = ctx
	return ctx, nil
}

// runSubtest runs a case in its subtest and records the result.
func (s *suite) runSubtest(t *testing.T, k check) {
	began := time.Now()
	r := result{ID: k.id, Rule: k.rule, Source: k.source, Result: "pass"}
	c := s.runCase(t, k)
	for _, text := range c.failures {
		t.Error(text)
	}
	r.MS = float64(time.Since(began).Microseconds()) / 1000
	r.Observed = c.observed
	switch {
	case len(c.failures) > 0:
		r.Result, r.Reason = "fail", c.firstFailure()
	case c.skipped != "":
		r.Result, r.Reason = "skip", c.skipped
	}
	s.results = append(s.results, r)
	if r.Result == "skip" {
		t.Skip(r.Reason)
	}
}

// runCase runs a case, unless the device lacks a capability or too many cases hung.
func (s *suite) runCase(t testing.TB, k check) *trial {
	c := &trial{tb: t, d: s.d, suite: s, dev: s.devices[0], id: k.id}
	switch c.skipped = s.missing(k.needs); {
	case c.skipped != "":
	case s.hangs >= maxHangs:
		c.fail("not run: %d cases hung before it", s.hangs)
	case s.isolated || k.needs&(needIsolation|needLaunchBlocking) == 0:
		c.guarded(k)
	case k.needs&needLaunchBlocking != 0 || !reopens(s.d):
		c.runInProcess(k)
	default:
		return s.runOnFreshDriver(t, k)
	}
	return c
}

// prepare gives a case the context that it needs.
func (s *suite) prepare(c *trial, n need) {
	switch {
	case n&needNoContext != 0:
	case n&needOwnContext != 0:
		c.ctx = c.newContext(cu.CtxMapHost)
	default:
		ctx, err := s.context(c.dev)
		c.ok(err, "prepare")
		c.ctx = ctx
	}
	if c.ctx != 0 {
		_, err := s.load(c.ctx) // now, because a case may capture or hold gates when it needs a kernel
		c.ok(err, "prepare")
	}
}

// checkPrimaries fails a case that left an error in a primary context, and resets the
// context.
func (s *suite) checkPrimaries(c *trial) {
	if s.isolated {
		return
	}
	for dev, ctx := range s.primary {
		err := s.d.CtxSynchronize(ctx)
		if err == nil {
			continue
		}
		c.fail("the case left the primary context of device %d in error: %v", dev, err)
		var code cu.Result
		if errors.As(err, &code) && code.Sticky() {
			if err := s.d.DevicePrimaryCtxReset(dev); err != nil {
				c.fail("reset it: %v", err)
			}
			s.forget(dev)
		}
	}
}
