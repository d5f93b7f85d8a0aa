// Package bench measures the cost of each kind of host memory on a device, and compares
// Ferry with other programs.
//
// [Compare] measures a vector addition with the vectors in each kind of memory. A time is
// that of one step, from its submission until the CPU can see the result. All kinds are
// measured in the same way: every sample has new inputs, its destination is poisoned
// before, and every element is verified after. The kinds run in random order, and the
// median of the samples counts. The CPU writes the inputs right before a step, with one
// goroutine up to 2^22 floats and with all cores beyond. So inputs that fit its caches are
// in them when the step begins.
//
// [Suite] compares Ferry with its peers, the programs in internal/measure/bench/peer. A contest
// takes samples of the same operation by Ferry and by peers, in turns. The command
// internal/measure/bench/speed runs the suite. [SpeedServe] measures goroutines that use a GPU at
// once, with package internal/measure/bench/serve.
//
// On an emulated device the times are those of its virtual clock: predictions from a
// profile, the same in every run. This package has no figures of a machine, except for the
// goals of Ferry's targets.
package bench
