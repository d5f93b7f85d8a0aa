// Package bench measures what each kind of host memory costs on a device.
//
// [Compare] is the vector addition experiment: one step, from the moment that
// the program submits it until the CPU can see the result, with the vectors in
// each kind of memory in turn. All kinds are measured by one method: fresh
// inputs for every sample, a destination that is poisoned before it, every
// element verified after it, the kinds in random order, the median of the
// samples. The CPU has just written the inputs, by one goroutine up to 2^22
// floats and by all cores beyond, so what fits its caches is there when the step
// begins.
//
// [Suite] is Ferry beside its peers, the programs in internal/bench/peer: contests in which
// all take samples of the same in turns. The command internal/bench/speed runs it.
//
// On an emulated device the times are those of its virtual clock: predictions
// from a profile, the same on every run. Nothing here holds a number about a
// machine.
package bench
