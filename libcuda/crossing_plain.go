//go:build !linux || (!amd64 && !arm64) || android || faketime

package libcuda

// cross makes the calls of c.
func cross(c *crossing) { crossPlain(c) }
