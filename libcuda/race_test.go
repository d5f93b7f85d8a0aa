//go:build race

package libcuda

// raceEnabled reports that the race detector is on. It lets a sync.Pool drop objects.
const raceEnabled = true
