//go:build !race

package softgpu

// moveBytes calls copy.
func moveBytes(dst, src []byte) int { return copy(dst, src) }
