package softgpu

import (
	"runtime"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// mustEnd fails the test with the stacks of all goroutines if call does not
// return.
func mustEnd(t *testing.T, what string, call func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(30 * time.Second):
		stacks := make([]byte, 1<<20)
		t.Fatalf("%s does not return; goroutines:\n%s", what, stacks[:runtime.Stack(stacks, true)])
	}
}

// timesOut queries a stream until its kernel has timed out. The queries move the
// virtual time on to the start of the kernel, and then wait for it.
func (r *rig) timesOut(s cu.Stream) {
	r.t.Helper()
	waits := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.sim.waitsForHost()
	}
	for limit := time.Now().Add(30 * time.Second); !waits(); {
		if time.Now().After(limit) {
			r.t.Fatal("the kernel does not time out")
		}
		r.want(cu.ErrorNotReady, r.StreamQuery(r.ctx, s))
	}
}

// A kernel that has timed out retires as soon as it is done. The copy behind it
// on the same engine must start at that moment: no later op wakes its waiter.
func TestCopyStartsWhenATimedOutKernelRetires(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		p := with(with(named(t, "h200"), "ASYNC_ENGINE_COUNT", 0), "GPU_OVERLAP", 0)
		r = newRig(t, Options{Profile: p, Schedule: r.schedule})
		const n = 4096
		ping, a, b := r.function("ping"), r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
		dev := r.alloc(n)
		src, _ := r.pinned(n)
		open := r.gate(ping, a)
		r.timesOut(a)
		r.ok(r.MemcpyHtoDAsync(r.ctx, dev, src, n, b))
		open()
		mustEnd(t, "StreamSynchronize", func() error { return r.StreamSynchronize(r.ctx, b) })
	})
}

// A kernel that waits for another context's kernel does not run once the device
// is lost. So its context can be destroyed although the other kernel never ends.
func TestDestroyAfterALossWithAKernelThatWaits(t *testing.T) {
	t.Setenv(ScheduleVariable, "eager")
	r := newRig(t, Options{Profile: with(named(t, "h200"), "COMPUTE_PREEMPTION_SUPPORTED", 0)})
	ping, wild := r.function("ping"), r.hostile("wild")
	a, b := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
	c, err := r.CtxCreate(0, 0)
	r.ok(err)
	m, err := r.ModuleLoadData(c, []byte(hostilePTX))
	r.ok(err)
	nothing, err := r.ModuleGetFunction(c, m, "nothing")
	r.ok(err)
	r.gate(ping, a) // it is never opened
	r.ok(r.LaunchKernel(c, nothing, one, one, 0, 0, nil))
	r.ok(r.run(wild, 1, 1, b))
	r.want(cu.ErrorIllegalAddress, r.StreamSynchronize(r.ctx, b))
	mustEnd(t, "CtxDestroy", func() error { return r.CtxDestroy(c) })
}

// On a busy computer the goroutine that waits may get the lock long after the op
// is done. Then the cost of the op is known, and the op has not timed out.
func TestDoneOpHasNotTimedOut(t *testing.T) {
	r := newRig(t, Options{})
	for range 20 {
		if timedOut, done := r.doneWhileWaiting(); done {
			if timedOut {
				t.Error("an op that is done has timed out")
			}
			return
		}
	}
	t.Error("20 ops have timed out before this goroutine ran")
}

// doneWhileWaiting waits for an op, and lets more than its limit pass before it is done, with
// the lock, as on a busy computer. done is false if the op has timed out before.
func (r *rig) doneWhileWaiting() (timedOut, done bool) {
	o := &op{ctx: &contextState{}, work: &work{kind: cu.GraphNodeTypeHost}}
	ended := make(chan struct{})
	go func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.boundedWait(o)
		close(ended)
	}()
	finish := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if o.doneCh == nil {
			return false
		}
		if done = !o.timedOut; done {
			time.Sleep(2 * hostWaitLimit)
			o.done = true
			close(o.doneCh)
		}
		return true
	}
	for !finish() {
		time.Sleep(time.Millisecond)
	}
	<-ended
	return o.timedOut, done
}
