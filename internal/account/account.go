package account

import (
	"fmt"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/internal/refusal"
)

// Kind is what asked for page-locked memory.
type Kind uint8

// The kinds of page-locked memory.
const (
	Allocated  Kind = iota // ferry.AllocHost
	Pooled                 // ferry.PinnedPool
	Registered             // ferry.Register
	Staging                // the staging ring
	Pipelines              // package pipeline
	kinds
)

// String returns the kind as a [Place] names it.
func (k Kind) String() string {
	return [kinds]string{"page-locked", "pooled", "registered", "staging", "pipeline"}[k]
}

// user returns who has memory of the kind, for errors.
func (k Kind) user() string {
	return [kinds]string{"buffers of AllocHost", "pools", "registered memory", "the staging ring", "pipelines"}[k]
}

// Account counts the page-locked bytes of one context. The zero Account has none, and no limit.
// It is safe for concurrent use.
type Account struct {
	Places Places // of all memory of the context

	mu       sync.Mutex
	now      Use
	promised int           // to claims, not page-locked yet
	less     chan struct{} // closed when there may be more room; nil if nobody has asked
}

// Use is how many bytes are page-locked.
type Use struct {
	By     [kinds]int // by Kind
	Locked int        // their sum
	Most   int        // the most that Locked was
	Limit  int        // of Locked; 0 is none
}

// Use returns how many bytes are page-locked.
func (a *Account) Use() Use {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// SetLimit sets the limit. What is page-locked stays so. 0 ends the limit.
func (a *Account) SetLimit(bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now.Limit = bytes
	a.roomGrew()
}

// Room returns how many bytes may still be page-locked. limited is false without a limit.
func (a *Account) Room() (bytes int, limited bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(0, a.now.Limit-a.now.Locked-a.promised), a.now.Limit > 0
}

// Less returns a channel that is closed when memory is given back or the limit changes after this
// call.
func (a *Account) Less() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.less == nil {
		a.less = make(chan struct{})
	}
	return a.less
}

// roomGrew tells those who wait. a.mu is held.
func (a *Account) roomGrew() {
	if a.less != nil {
		close(a.less)
		a.less = nil
	}
}

// Add counts bytes that are page-locked now or, if negative, are not any more.
func (a *Account) Add(k Kind, bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(k, bytes)
}

// add implements Add. a.mu is held.
func (a *Account) add(k Kind, bytes int) {
	a.now.By[k] += bytes
	a.now.Locked += bytes
	a.now.Most = max(a.now.Most, a.now.Locked)
	if bytes < 0 {
		a.roomGrew()
	}
}

// Clear forgets all memory, because the context is gone and with it what the driver did not free.
func (a *Account) Clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now.By, a.now.Locked = [kinds]int{}, 0
	a.roomGrew()
}

// Over is the error of a claim beyond the limit.
type Over struct {
	Bytes int
	Use   Use
}

// Fits reports whether the limit has room for the request when other memory is given back.
func (e *Over) Fits() bool { return e.Bytes <= e.Use.Limit }

// Error says what is used by which kind.
func (e *Over) Error() string {
	var all []string
	for k, n := range e.Use.By {
		if n > 0 {
			all = append(all, fmt.Sprintf("%s by %s", refusal.Size(uintptr(n)), Kind(k).user()))
		}
	}
	used := "nothing is page-locked"
	if len(all) > 0 {
		used = "page-locked are " + strings.Join(all, ", ")
	}
	return fmt.Sprintf("the limit of page-locked memory is %s (GPU.LimitHost), and %s", refusal.Size(uintptr(e.Use.Limit)), used)
}

// Claim is a request for page-locked memory, and then the memory itself. It is safe for concurrent
// use.
type Claim struct {
	of   *Account
	kind Kind
	at   *Site // where it was made, nil if places are not recorded

	// Account.mu guards these:
	promised int // of the request, not page-locked yet
	have     int // page-locked
}

// Claim holds bytes of the limit for a request that is about to page-lock them. The error is an
// [*Over]. With must it never fails.
func (a *Account) Claim(k Kind, bytes int, must bool) (*Claim, error) {
	a.mu.Lock()
	if left := a.now.Limit - a.now.Locked - a.promised; a.now.Limit > 0 && bytes > left && !must {
		defer a.mu.Unlock()
		return nil, &Over{bytes, a.now}
	}
	a.promised += bytes
	a.mu.Unlock()
	return &Claim{of: a, kind: k, promised: bytes, at: a.Places.site(k.String())}, nil
}

// Add counts bytes of the claim that are page-locked now or, if negative, are not any more.
func (c *Claim) Add(bytes int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.add(bytes)
}

// add implements Add. Account.mu is held.
func (c *Claim) add(bytes int) {
	if bytes > 0 {
		n := min(bytes, c.promised)
		c.promised -= n
		c.of.promised -= n
	}
	before := c.have
	c.have += bytes
	c.of.add(c.kind, bytes)
	c.at.change(before, c.have)
}

// Keep says that no more than bytes of the claim are page-locked, after an error of the driver.
func (c *Claim) Keep(bytes int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if bytes < c.have {
		c.add(bytes - c.have)
	}
}

// Part takes bytes of the request, which are page-locked now, as a claim of their own.
func (c *Claim) Part(bytes int) *Claim {
	part := &Claim{of: c.of, kind: c.kind, at: c.at}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	n := min(bytes, c.promised)
	c.promised -= n
	part.promised = n
	part.add(bytes)
	return part
}

// End ends the request. What is page-locked stays counted.
func (c *Claim) End() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.promised == 0 {
		return
	}
	c.of.promised -= c.promised
	c.promised = 0
	c.of.roomGrew()
}
