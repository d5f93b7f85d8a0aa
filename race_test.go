//go:build race

package ferry_test

// raceEnabled is true with the race detector. It empties a sync.Pool at random, so
// allocations are not counted.
const raceEnabled = true
