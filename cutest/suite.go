package cutest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// maxHangs is how many cases may hang before the rest is given up.
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
	lone     bool // for one case that may leave the driver useless
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

// Run runs every case as a subtest of t. open is called once, again after a case
// that hung, and on an emulated device for each case that loses the device; the
// driver it returns need not be initialised. What it opened is open's to close,
// with t.Cleanup.
//
// Device 0 is tested, and device 1 in the cases that need two. Primary contexts
// are retained during the run; before it the suite asks for one that nobody
// holds.
//
// On hardware a case that loses the device, or that wants an environment of its
// own, runs in a process of its own: the test binary, started again to run t for
// that case alone.
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
	s := &suite{open: open, times: usual, parent: t}
	s.start(t)
	defer s.stop(t)
	for _, k := range checks {
		t.Run(k.id, func(t *testing.T) { s.one(t, k) })
	}
	s.writeJSON(t)
	return s
}

// start opens the driver and looks at the machine.
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

// stop gives the primary contexts back.
func (s *suite) stop(t testing.TB) {
	if s.lone {
		return
	}
	for dev := range s.primary {
		s.drop(t, dev)
	}
}

// forget takes the primary context of a device out of the books; it is gone.
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

// context is the primary context of a device with the suite's kernels warm in it.
func (s *suite) context(dev cu.Device) (cu.Context, error) {
	if ctx, ok := s.primary[dev]; ok {
		return ctx, nil
	}
	// Mapping is on by itself under unified addressing, where hardware refuses the
	// flag; elsewhere it is asked for.
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

// one runs a case in its subtest and notes the result.
func (s *suite) one(t *testing.T, k check) {
	began := time.Now()
	r := result{ID: k.id, Rule: k.rule, Source: k.source, Result: "pass"}
	c := s.judge(t, k)
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

// judge runs a case, unless something is missing or too much has hung already.
func (s *suite) judge(t testing.TB, k check) *T {
	c := &T{tb: t, d: s.d, suite: s, dev: s.devices[0], id: k.id}
	switch c.skipped = s.missing(k.needs); {
	case c.skipped != "":
	case s.hangs >= maxHangs:
		c.fail("not run: %d cases hung before it", s.hangs)
	case s.lone || k.needs&(needLone|needLaunchBlocking) == 0:
		c.guarded(k)
	case k.needs&needLaunchBlocking != 0 || cu.AsEmulated(s.d) == nil:
		c.inProcess(k)
	default:
		return s.withFreshDriver(t, k)
	}
	return c
}

// prepare gives a case the context that it wants.
func (s *suite) prepare(c *T, n need) {
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
		_, err := s.load(c.ctx) // now, as a case may capture or hold gates when it wants a kernel
		c.ok(err, "prepare")
	}
}

// mend looks whether a case left the shared context whole, and makes a new one if not.
func (s *suite) mend(c *T) {
	if s.lone {
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
