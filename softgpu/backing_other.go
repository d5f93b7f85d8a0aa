//go:build !unix && !windows

package softgpu

const reservesLazily = false

// reserve uses the Go heap, the only kind of memory here.
func reserve(n int) (*backing, error) { return goHeap(n) }
