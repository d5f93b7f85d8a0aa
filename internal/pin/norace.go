//go:build !race

package pin

// underRace is true when the race detector is on.
const underRace = false
