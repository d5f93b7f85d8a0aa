//go:build !race

package pin

// underRace says whether the race detector watches.
const underRace = false
