package cutest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// T is what a case works with: a driver, a context and the means to judge.
// Like [testing.T] it ends a case by ending its goroutine.
type T struct {
	tb    testing.TB
	d     cu.Driver
	suite *suite
	dev   cu.Device
	ctx   cu.Context // 0 in cases that run before there is one
	id    string

	cleanups []func()

	mu       sync.Mutex // guards all below
	closed   bool       // the case was left behind
	waiting  string
	failures []string
	skipped  string
	gates    []*gate
	observed map[string]any
}

// step says what the case is about to wait for.
func (c *T) step(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = what
}

func (c *T) waitingFor() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// fail notes a failure and goes on.
func (c *T) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.failures = append(c.failures, fmt.Sprintf(format, args...))
}

func (c *T) firstFailure() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failures) == 0 {
		return "see the log"
	}
	first, _, _ := strings.Cut(c.failures[0], "\n")
	return first
}

// fatal notes a failure and ends the case.
func (c *T) fatal(format string, args ...any) {
	c.fail(format, args...)
	runtime.Goexit()
}

// skip ends the case without a verdict.
func (c *T) skip(format string, args ...any) {
	c.mu.Lock()
	c.skipped = fmt.Sprintf(format, args...)
	c.mu.Unlock()
	runtime.Goexit()
}

// observe tells what the driver does where the manual is silent.
func (c *T) observe(name string, value any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if err, ok := value.(error); ok {
		value = codeName(err)
	}
	if c.observed == nil {
		c.observed = map[string]any{}
	}
	c.observed[name] = value
	c.tb.Logf("OBSERVE %s=%v", name, value)
}

// observeError is observe for the result of a call; nil is CUDA_SUCCESS.
func (c *T) observeError(name string, err error) { c.observe(name, codeName(err)) }

func codeName(err error) string {
	if err == nil {
		return "CUDA_SUCCESS"
	}
	var code cu.Result
	if errors.As(err, &code) {
		return code.Name()
	}
	return err.Error()
}

// ok ends the case unless err is nil.
func (c *T) ok(err error, what string) {
	if err != nil {
		c.fatal("%s: %v", what, err)
	}
}

// want fails the case unless err is one of the codes; [cu.Success] stands for nil.
func (c *T) want(err error, what string, codes ...cu.Result) {
	c.mu.Lock()
	c.waiting = "after " + what
	c.mu.Unlock()
	if slices.ContainsFunc(codes, func(code cu.Result) bool { return isCode(err, code) }) {
		if len(codes) > 1 {
			c.observeError(c.id+": "+what, err)
		}
		return
	}
	names := make([]string, len(codes))
	for i, code := range codes {
		names[i] = code.Name()
	}
	c.fail("%s: got %s (%v), want %s", what, codeName(err), err, strings.Join(names, " or "))
}

// wantOrEmulated is want for what hardware answers; an emulated device, which
// looks more closely or later, may answer otherwise.
func (c *T) wantOrEmulated(err error, what string, hardware cu.Result, emulated ...cu.Result) {
	codes := []cu.Result{hardware}
	if cu.AsEmulated(c.d) != nil {
		codes = append(codes, emulated...)
	}
	c.want(err, what, codes...)
}

func isCode(err error, code cu.Result) bool {
	if code == cu.Success {
		return err == nil
	}
	return errors.Is(err, code)
}

// check fails the case unless cond holds.
func (c *T) check(cond bool, format string, args ...any) {
	if !cond {
		c.fail(format, args...)
	}
}

// same compares every byte.
func (c *T) same(what string, got, want []byte) {
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		c.fail("%s: got %d bytes, want %d", what, len(got), len(want))
		return
	}
	first, count := -1, 0
	for i := range got {
		if got[i] != want[i] {
			if first < 0 {
				first = i
			}
			count++
		}
	}
	c.fail("%s: %d of %d bytes differ, the first at %d: got %#x, want %#x", what, count, len(got), first, got[first], want[first])
}

// random is n fresh bytes.
func (c *T) random(n int) []byte {
	b := make([]byte, n)
	c.scramble(b)
	return b
}

// scramble overwrites b with fresh bytes, so that nothing expected is there by chance.
func (c *T) scramble(b []byte) {
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, rand.Uint64())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
}

// later runs f when the case is over, last first, with all gates open and the
// context idle.
func (c *T) later(f func()) { c.cleanups = append(c.cleanups, f) }

// now is the time of the host: an emulated device's is its own.
func (c *T) now() time.Duration {
	if e := cu.AsEmulated(c.d); e != nil {
		return e.Now()
	}
	return time.Since(theStart)
}

var theStart = time.Now()

// attr is a device attribute, 0 where the driver is older than the attribute.
func (c *T) attr(a cu.DeviceAttribute) int32 {
	v, err := c.d.DeviceGetAttribute(a, c.dev)
	if isCode(err, cu.ErrorInvalidValue) {
		return 0
	}
	c.ok(err, a.String())
	return v
}

// wild is an address where nothing is. With access to pageable memory the driver
// takes any address for memory of the host, and finds out too late: the case skips.
func (c *T) wild() cu.DevicePtr {
	if c.attr(cu.DeviceAttributePageableMemoryAccess) != 0 {
		c.skip("the device uses pageable memory: any address may be good")
	}
	return 0xdead_0000
}

// glimpse is how long a call is watched not to return.
const glimpse = 25 * time.Millisecond

// until polls cond.
func (c *T) until(what string, cond func() bool) {
	c.step(what)
	patience := c.suite.times.patience
	for limit := time.Now().Add(patience); !cond(); {
		if time.Now().After(limit) {
			c.fatal("%s did not happen within %v", what, patience)
		}
		time.Sleep(200 * time.Microsecond)
	}
}
