//go:build !race

package pipeline_test

// raceEnabled is false without the race detector.
const raceEnabled = false
