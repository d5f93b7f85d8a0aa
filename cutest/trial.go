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

// trial is one run of a case. It has what the case works with: a driver, a context and
// methods for checks. Like [testing.T] it ends a case by ending its goroutine.
type trial struct {
	tb    testing.TB
	d     cu.Driver
	suite *suite
	dev   cu.Device
	ctx   cu.Context // 0 in cases that run before there is one
	id    string

	cleanups []func()

	mu       sync.Mutex // guards all below
	closed   bool       // the case hangs and was abandoned
	waiting  string
	failures []string
	skipped  string
	gates    []*gate
	observed map[string]any
}

// step records what the case is about to wait for.
func (c *trial) step(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = what
}

func (c *trial) waitingFor() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// fail records a failure and goes on.
func (c *trial) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.failures = append(c.failures, fmt.Sprintf(format, args...))
}

func (c *trial) firstFailure() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failures) == 0 {
		return "see the log"
	}
	first, _, _ := strings.Cut(c.failures[0], "\n")
	return first
}

// fatal records a failure and ends the case.
func (c *trial) fatal(format string, args ...any) {
	c.fail(format, args...)
	runtime.Goexit()
}

// skip ends the case without a result.
func (c *trial) skip(format string, args ...any) {
	c.mu.Lock()
	c.skipped = fmt.Sprintf(format, args...)
	c.mu.Unlock()
	runtime.Goexit()
}

// observe records what the driver does where the manual is silent.
func (c *trial) observe(name string, value any) {
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

// observeError records the result of a call; nil is CUDA_SUCCESS.
func (c *trial) observeError(name string, err error) { c.observe(name, codeName(err)) }

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

// skipMissing ends the case without a result if the driver does not have a call, because
// it is older.
func (c *trial) skipMissing(err error) {
	if missing, ok := errors.AsType[*cu.NotSupportedError](err); ok {
		c.skip("the driver lacks %s: it needs %s", missing.Call, missing.Needs)
	}
}

// ok ends the case unless err is nil.
func (c *trial) ok(err error, what string) {
	if err != nil {
		c.skipMissing(err)
		c.fatal("%s: %v", what, err)
	}
}

// want fails the case unless err is one of the codes; [cu.Success] stands for nil.
func (c *trial) want(err error, what string, codes ...cu.Result) {
	c.mu.Lock()
	c.waiting = "after " + what
	c.mu.Unlock()
	if slices.ContainsFunc(codes, func(code cu.Result) bool { return isCode(err, code) }) {
		if len(codes) > 1 {
			c.observeError(c.id+": "+what, err)
		}
		return
	}
	c.skipMissing(err)
	names := make([]string, len(codes))
	for i, code := range codes {
		names[i] = code.Name()
	}
	c.fail("%s: got %s (%v), want %s", what, codeName(err), err, strings.Join(names, " or "))
}

// wantOrEmulated demands the code hardware. On an emulated device, which may check more
// or later, it also accepts the codes emulated.
func (c *trial) wantOrEmulated(err error, what string, hardware cu.Result, emulated ...cu.Result) {
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
func (c *trial) check(cond bool, format string, args ...any) {
	if !cond {
		c.fail(format, args...)
	}
}

// same compares every byte.
func (c *trial) same(what string, got, want []byte) {
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

// random returns n fresh bytes.
func (c *trial) random(n int) []byte {
	b := make([]byte, n)
	c.scramble(b)
	return b
}

// scramble overwrites b with fresh bytes, so that no expected value is there by chance.
func (c *trial) scramble(b []byte) {
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, rand.Uint64())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
}

// cleanup runs f at the end of the case, when all gates are open and the context is
// idle. The last f runs first.
func (c *trial) cleanup(f func()) { c.cleanups = append(c.cleanups, f) }

// now returns the time of the host. An emulated device has a virtual time.
func (c *trial) now() time.Duration {
	if e := cu.AsEmulated(c.d); e != nil {
		return e.Now()
	}
	return time.Since(processStart)
}

var processStart = time.Now()

// attr returns a device attribute, or 0 if the driver is older than the attribute.
func (c *trial) attr(a cu.DeviceAttribute) int32 {
	v, err := c.d.DeviceGetAttribute(a, c.dev)
	if isCode(err, cu.ErrorInvalidValue) {
		return 0
	}
	c.ok(err, a.String())
	return v
}

// unusedAddress returns an address without memory. On a device with access to pageable
// memory the case skips. There the driver takes any address for host memory, and finds
// the error too late.
func (c *trial) unusedAddress() cu.DevicePtr {
	if c.attr(cu.DeviceAttributePageableMemoryAccess) != 0 {
		c.skip("the device uses pageable memory: any address may be valid")
	}
	return 0xdead_0000
}

// blockedTime is how long a call is watched to check that it does not return.
const blockedTime = 25 * time.Millisecond

// until polls cond until it is true.
func (c *trial) until(what string, cond func() bool) {
	c.step(what)
	returnLimit := c.suite.times.returnLimit
	for limit := time.Now().Add(returnLimit); !cond(); {
		if time.Now().After(limit) {
			c.fatal("%s did not happen within %v", what, returnLimit)
		}
		time.Sleep(200 * time.Microsecond)
	}
}
