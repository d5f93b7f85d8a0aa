//go:build !race

package ferry_test

// raceEnabled is false without the race detector.
const raceEnabled = false
