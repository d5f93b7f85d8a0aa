//go:build !amd64

package stage

// leastStream is the least that stream takes.
const leastStream = 128

// stream copies. Other processors have no way past the caches that is known to pay.
func stream(dst, src []byte) { copy(dst, src) }
