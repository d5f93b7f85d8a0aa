//go:build !linux

package bench

// ordinary is memory as Go has it.
func ordinary(n int, _ bool, _ *closers) ([]byte, error) { return make([]byte, n), nil }
