//go:build race

package pipeline_test

// raceEnabled: the race detector empties pools at random, so allocations are not
// counted.
const raceEnabled = true
