package softgpu

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// The rules of this file hold on devices that run several kernels at once and
// have compute capability 3.0 or lower (programming guide: implicit
// synchronization, overlapping behavior). Such a device has one queue of
// kernels. An operation that must see the end of a kernel makes a dependency
// check:
//
//   - It starts only when all blocks of all kernels that were launched before it,
//     in any stream of the context, have started.
//   - Kernels that are launched after it, in any stream of the context, start
//     only when the checked kernel has ended.
//
// A check is any operation behind a kernel in its stream: a copy, a kernel, the
// record of an event. A query of the stream has the second effect too.

// checksDependencies reports whether dev makes dependency checks.
func (dev *device) checksDependencies() bool {
	return dev.computeCapability() <= 30 && dev.attr(cu.DeviceAttributeConcurrentKernels) != 0
}

// oneQueue reports whether dev has one hardware queue for the operations of all
// streams. Devices of compute capability 3.5 and higher have a queue for each
// stream.
func (dev *device) oneQueue() bool { return dev.computeCapability() < 35 }

// computeCapability returns 10 times the major plus the minor number.
func (dev *device) computeCapability() int {
	return dev.attr(cu.DeviceAttributeComputeCapabilityMajor)*10 + dev.attr(cu.DeviceAttributeComputeCapabilityMinor)
}

// checked returns the kernels whose end an operation after deps must see. An
// operation without an engine, such as the record of an event, passes on what
// it checks.
func checked(deps []*op) (all []*op) {
	for _, dep := range deps {
		switch {
		case dep == nil || dep.retired:
		case dep.work.launch != nil:
			all = append(all, dep)
		case dep.on == engineNone:
			all = append(all, dep.checks...)
		}
	}
	return all
}

// check makes the dependency checks of o, which follows deps. If o is a kernel,
// it waits for the kernels that earlier operations check. The waits are in
// virtual time only, because no program may rely on them.
func (c *contextState) check(o *op, deps []*op) {
	if !c.dev.old {
		return
	}
	o.checks = checked(deps)
	c.checking = slices.DeleteFunc(c.checking, func(x dependencyCheck) bool { return x.kernel.retired })
	c.launched = slices.DeleteFunc(c.launched, func(x *op) bool { return x.retired })
	var followed []*op
	if l := o.work.launch; l != nil {
		for _, x := range c.checking {
			followed = append(followed, x.kernel)
		}
		if c.switchesCache(l.fn.cache) {
			followed = append(followed, c.launched...)
		}
		for _, x := range followed {
			o.followInTime(x)
		}
		o.checksBefore = c.checks
	}
	if len(o.checks) > 0 {
		o.behind = slices.Clone(c.launched)
		c.addChecks(o.checks)
	}
	if o.work.launch != nil {
		// The last blocks of o start after the ends of those that it follows.
		c.launched = slices.DeleteFunc(c.launched, func(x *op) bool { return slices.Contains(followed, x) || slices.Contains(o.checks, x) })
		c.launched = append(c.launched, o)
	}
}

// dependencyCheck is a check of a kernel that has not ended.
type dependencyCheck struct {
	kernel *op
	number int // counts the checks of the context
}

// addChecks makes kernels that are launched later wait for the ends of these kernels. It drops
// earlier checks that a kernel of the list had itself waited for, because its end comes after
// theirs.
func (c *contextState) addChecks(kernels []*op) {
	for _, k := range kernels {
		if slices.ContainsFunc(c.checking, func(x dependencyCheck) bool { return x.kernel == k }) {
			continue
		}
		c.checking = slices.DeleteFunc(c.checking, func(x dependencyCheck) bool { return x.number <= k.checksBefore })
		c.checks++
		c.checking = append(c.checking, dependencyCheck{k, c.checks})
	}
}

// switchesCache reports whether a kernel with this preference needs another
// division of L1 cache and shared memory than the kernel before it. The switch
// waits until no kernel runs. A kernel without a preference takes the division
// as it is.
func (c *contextState) switchesCache(prefers cu.FuncCache) bool {
	before := c.division
	if prefers != cu.FuncCachePreferNone {
		c.division = prefers
	}
	return c.division != before
}

// followInTime makes o wait for the end of x in virtual time.
func (o *op) followInTime(x *op) {
	if x.retired {
		o.noteCheck(x)
		o.ready = max(o.ready, o.earliestStart(x))
		return
	}
	o.unretiredDeps++
	x.later = append(x.later, o)
}

// held reports whether a dependency check of o keeps it from starting: a kernel
// that was launched before has blocks that have not started. o, whose stream
// has reached it, need not check a kernel that had ended when o arrived.
func (o *op) held() bool {
	o.behind = slices.DeleteFunc(o.behind, (*op).allStarted)
	if len(o.behind) > 0 {
		o.heldBy = o.behind[len(o.behind)-1].id
	}
	return len(o.behind) > 0 && slices.ContainsFunc(o.checks, func(x *op) bool { return x.end > o.arrive })
}

// allStarted reports whether all blocks of kernel o have started.
func (o *op) allStarted() bool { return o.retired || o.begun }

// lastBlocks returns the part of the time of kernel o after its last blocks have
// started. It is all of it if the device runs the whole grid at once.
func (o *op) lastBlocks() float64 {
	l := o.work.launch
	return min(1, float64(l.on(o.ctx.dev).Resident())/float64(max(1, l.grid.Count())))
}

// begins returns when the last blocks of o start, or forever if they have
// started, or if nothing depends on it.
func (t *timeline) begins(o *op) float64 {
	switch {
	case o.begun || o.work.launch == nil || !o.ctx.dev.old:
		return forever
	case o.timedOut && !o.priced: // it waits for the host
		return t.now
	case !o.priced:
		return forever
	}
	before := max(0, o.remaining-o.cost.ns*o.lastBlocks())
	return t.updated + before*t.slowdown(o)
}

// markBegun records which running kernels have started all their blocks, and
// reports whether there is a new one.
func (t *timeline) markBegun() bool {
	any := false
	for _, o := range t.running {
		if t.begins(o) <= t.now {
			o.begun, any = true, true
		}
	}
	return any
}
