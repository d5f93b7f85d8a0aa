// Package doctor examines a machine for what makes copies between host and GPU slow, or
// page-locking fail. "ferry doctor" prints its report.
//
// [Examine] reads a tree of files, which is the root of the machine or one of a test, and
// asks NVML through the interface [Manager]. Each check has a state, what was found, what
// that costs, and how to mend it. No check changes anything on the machine, and none uses
// the GPU. [Here] examines the machine that the program runs on.
//
// What a single check does not know is skipped, never guessed. Costs name their source: a
// measurement of Ferry, a prediction from one, a manual, or a report of others.
package doctor
