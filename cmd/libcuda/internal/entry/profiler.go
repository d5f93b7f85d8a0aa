package entry

import "github.com/ferrygpu/ferry/cu"

// The calls that bound what a profiler measures do nothing more than without one.

//c:call cuProfilerStart ()
func profilerStart(d cu.Driver, f *Frame) error { return inContext(d, f) }

//c:call cuProfilerStop ()
func profilerStop(d cu.Driver, f *Frame) error { return inContext(d, f) }

// inContext demands a current context.
func inContext(d cu.Driver, f *Frame) error {
	_, err := d.CtxGetFlags(cu.Context(f.Ctx))
	return err
}
