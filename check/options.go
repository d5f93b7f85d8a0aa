package check

import (
	"io"
	"os"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/wrappers"
)

// Options say where findings go. The zero Options only keep them for [Driver.Findings].
type Options struct {
	// Output gets the text of each finding, once for each pair of places, that Report does
	// not write. nil for none. The call with the finding waits for it, other calls do not.
	Output io.Writer
	// Notes adds notes to Output: costs that are no faults, such as pageable copies that
	// make the host wait.
	Notes bool
	// Report adds each finding to the file that FERRY_CHECK_REPORT names, as "ferry check"
	// wants it.
	Report bool
}

// Wrap returns a driver that watches the calls of inner. Wrap each driver once, and before
// its first use: memory, streams and events that were made before are not known.
func Wrap(inner cu.Driver, o Options) *Driver {
	d := &Driver{
		inner: inner, o: o, sites: new(callsite.Finder),
		perCall: os.Getenv("CUDA_LAUNCH_BLOCKING") == "1" || os.Getenv("FERRY_LAUNCH_BLOCKING") == "1",
		orders:  orders{lanes: map[laneKey]*lane{}, events: map[cu.Event]*event{}},
		graphs:  map[cu.Graph]*content{}, execs: map[cu.GraphExec]*executable{}, contexts: map[cu.Context]*contextUse{},
	}
	d.memories.lost = func(n int) { d.gaveUp(gaveUpFreed, n) }
	d.pageable = memory{kind: pageable, end: ^uint64(0)}
	d.found.index = map[string]int{}
	if x, ok := cu.As[interface{ Checks() bool }](inner); ok {
		d.exact = x.Checks()
	}
	if o.Report {
		d.tell()
	}
	return d
}

// Environment returns d as it is, unless FERRY_CHECK has "memory" or is 1. Then it wraps d
// and writes findings to standard error. The same driver gets the same wrapper while that is
// in use. Package ferry calls Environment when it opens a device.
func Environment(d cu.Driver) (cu.Driver, error) {
	on, err := checks.On(checks.Memory)
	if err != nil {
		return nil, refusal.Invalid("%v", err)
	}
	if !on {
		return d, nil
	}
	if err := checks.Ready(); err != nil {
		return nil, err
	}
	return wrappers.Of(d, func(d cu.Driver) (*Driver, error) {
		return Wrap(d, Options{Output: os.Stderr, Report: true}), nil
	})
}
