package check

import (
	"fmt"

	"github.com/ferrygpu/ferry/internal/checks"
)

// GaveUp is what a check did not follow any more, because it would have needed too much memory
// or time: there may be faults that it has not found.
type GaveUp = checks.GaveUp

// What the check can give up.
const (
	gaveUpFindings  = "findings were left out, because there are 1000 already"
	gaveUpAccesses  = "uses of an allocation were forgotten, because more than 512 wait for a synchronization: wrong order with them is not found"
	gaveUpFreed     = "freed allocations were forgotten, because more than 4096 are remembered: uses after their free are not found"
	gaveUpStale     = "arguments of kernels in freed memory were forgotten, because more than 64 are remembered: a fault of such a kernel is not explained"
	gaveUpSuspects  = "findings of collected memory were forgotten, because more than 64 wait for the garbage collector"
	gaveUpLists     = "lists of more than 256 copies were not compared: conflicts within them are not found"
	gaveUpWritten   = "allocations with more than 256 ranges that were written are not followed: reads of what nothing has written are not found"
	gaveUpSources   = "sources of copies were not compared, because more than 256 copies of page-locked memory are in flight: changes of these sources are not found"
	gaveUpValues    = "uses of memory behind a wait for a value (cuStreamWaitValue32) were not compared with those of other streams, which the value may order"
	gaveUpArguments = "launches of graphs whose kernels got new arguments are not followed: what those kernels use is not known"
)

// GaveUp returns what the check has given up so far, and how often.
func (d *Driver) GaveUp() []GaveUp {
	if d == nil {
		return nil
	}
	d.write() // counts what the last calls gave up
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limits.List()
}

// gaveUp counts that the check has given something up n times. It is said when the call
// returns. The caller holds mu.
func (d *Driver) gaveUp(what string, n int) {
	d.given = append(d.given, GaveUp{Check: checks.Memory, What: what, Count: n})
	d.unwritten.Store(true)
}

// writeGiven says what was given up. The file of "ferry check" has it, or else the output has
// each kind once.
func (d *Driver) writeGiven(list []GaveUp) {
	for _, g := range list {
		add := d.limits.Add
		if !d.o.Report {
			add = d.limits.Count
		}
		if add(g.Check, g.What, g.Count) && d.o.Output != nil {
			fmt.Fprintf(d.o.Output, "ferry check: gave up something: %s\n", g.What)
		}
	}
}
