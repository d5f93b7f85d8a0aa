package softgpu

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// heldCase is a program in which something acquires a word and ends before what has released
// the word. The data are in q: put in stream a writes them, in the wrong program in stream d.
type heldCase struct {
	name string
	held []string // what the test keeps from ending: kernels, and "" for written values
	run  func(x *heldRig)
}

// heldRig is a betweenRig that keeps operations from ending.
type heldRig struct {
	*betweenRig
	data   cu.Stream
	flags  []uint32     // mapped memory
	mapped cu.DevicePtr // its address on the device
	at     map[string]chan bool
}

var heldCases = []heldCase{
	{"a written value", []string{""}, func(x *heldRig) {
		x.write(x.p)
		x.one("hold", 1, x.b, x.p, x.q)
	}},
	{"a kernel", []string{"release"}, func(x *heldRig) {
		x.one("release", 1, x.a, x.p, x.r)
		x.one("hold", 1, x.b, x.p, x.q)
	}},
	{"what follows the acquire", []string{""}, func(x *heldRig) {
		x.write(x.p)
		x.one("hold", 1, x.b, x.p, x.r)
		x.launch("get", x.b, x.q)
	}},
	{"what follows in another stream", []string{"release"}, func(x *heldRig) {
		x.one("release", 1, x.a, x.p, x.r)
		x.one("hold", 1, x.b, x.p, x.p+64)
		x.follow(x.b, x.c)
		x.launch("get", x.c, x.q)
	}},
	{"two words", []string{"", "relay"}, func(x *heldRig) {
		x.write(x.p)
		x.one("relay", 1, x.b, x.p, x.p+64)
		x.one("hold", 1, x.c, x.p+64, x.q)
	}},
	{"two words, the first ends first", []string{"relay", ""}, func(x *heldRig) {
		x.write(x.p)
		x.one("relay", 1, x.b, x.p, x.p+64)
		x.one("hold", 1, x.c, x.p+64, x.r)
		x.launch("get", x.c, x.q)
	}},
	{"the host goes on", []string{"relay", ""}, func(x *heldRig) {
		x.write(x.p)
		x.one("relay", 1, x.b, x.p, x.mapped)
		for atomic.LoadUint32(&x.flags[0]) == 0 {
			time.Sleep(100 * time.Microsecond)
		}
		x.launch("get", x.c, x.q)
	}},
	{"the word is used again", []string{""}, func(x *heldRig) {
		x.write(x.p)
		x.one("hold", 1, x.b, x.p, x.q)
		x.launch("put", x.b, x.p)
	}},
}

// write queues the write of a value behind the data's.
func (x *heldRig) write(p cu.DevicePtr) { x.ok(x.StreamWriteValue32(x.ctx, x.a, p, 1, 0)) }

// TestReleaseEndsLater: an operation that releases a word may end after those that have
// acquired it. No correct program is reported then, and each wrong one is.
func TestReleaseEndsLater(t *testing.T) {
	for _, c := range heldCases {
		t.Run(c.name, func(t *testing.T) {
			x := newHeldRig(t, &c)
			if found := x.findings(&c); len(found) > 0 {
				t.Errorf("the correct program is reported: %v", found)
			}
			if raceBuild {
				return
			}
			x = newHeldRig(t, &c)
			x.data = x.d
			if found := x.findings(&c); len(found) != 1 || found[0].First.Kernel != "put" {
				t.Errorf("the wrong program: got %v, want a race with put", found)
			}
		})
	}
}

func newHeldRig(t *testing.T, c *heldCase) *heldRig {
	x := &heldRig{betweenRig: newBetweenRig(t, Eager), at: map[string]chan bool{}}
	x.data = x.a
	x.flags, x.mapped = x.mappedWords()
	for _, name := range c.held {
		x.at[name] = make(chan bool)
	}
	x.beforeEnd = func(o *op) {
		name := ""
		if l := o.work.launch; l != nil {
			name = l.fn.name
		}
		if ch := x.at[name]; ch != nil && (name != "" || o.kind == cu.GraphNodeTypeBatchMemOp) {
			<-ch
		}
	}
	return x
}

// findings runs the program, and lets the operations that it holds end, the last named first.
func (x *heldRig) findings(c *heldCase) []Finding {
	x.launch("put", x.data, x.q)
	c.run(x)
	x.untilOpen(len(c.held))
	if found := x.Findings(); len(found) > 0 {
		x.t.Errorf("reported while operations run that may order it: %v", found)
	}
	for i := len(c.held) - 1; i >= 0; i-- {
		close(x.at[c.held[i]])
		x.untilOpen(i)
	}
	x.ok(x.CtxSynchronize(x.ctx))
	if s := x.launches.Stats(); s.Waiting+s.Running > 0 {
		x.t.Errorf("%d conflicts and words, and %d operations are kept at the end", s.Waiting, s.Running)
	}
	return x.Findings()
}

// untilOpen waits until n launches, copies and fills have not ended.
func (x *betweenRig) untilOpen(n int) {
	for x.launches.Stats().Open > n {
		time.Sleep(100 * time.Microsecond)
	}
}

// TestReportedAtOnce: a conflict that no running operation can order is reported before these
// end.
func TestReportedAtOnce(t *testing.T) {
	needsThreads(t) // the report is written while a kernel polls
	if raceBuild {
		t.Skip("the race detector reports this wrong program, too")
	}
	x := newBetweenRig(t, Eager)
	flags, p := x.mappedWords()
	x.one("hold", 1, x.d, p, x.r)
	x.launch("put", x.a, x.p)
	x.launch("get", x.b, x.p)
	x.untilOpen(1)
	if found := x.Findings(); len(found) != 1 {
		t.Errorf("got %v, want a race of put and get", found)
	}
	atomic.StoreUint32(&flags[0], 1)
	x.sync(x.d)
}
