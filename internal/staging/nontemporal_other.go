//go:build !amd64 || noasm || race

package staging

// On other processors no store past the caches is known to be faster, and none moves
// memory out of them. The build tag noasm selects these functions as well. So do builds with the race
// detector, which does not see the accesses of assembly.

const minNonTemporal = 128

func copyNonTemporal(dst, src []byte) { copy(dst, src) }

func demote([]byte) {}

const canDemote = false
