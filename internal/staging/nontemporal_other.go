//go:build !amd64 || noasm

package staging

// On other processors no store past the caches is known to be faster, and none moves
// memory out of them. The build tag noasm
// selects them as well.

const minNonTemporal = 128

func copyNonTemporal(dst, src []byte) { copy(dst, src) }

func demote([]byte) {}

const canDemote = false
