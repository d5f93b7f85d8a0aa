//go:build !unix && !windows

package softgpu

// reserve takes the only kind of memory there is here.
func reserve(n int) (*backing, error) { return goHeap(n) }
