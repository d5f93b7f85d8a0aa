package callsite

// Goroutine returns a number of the calling goroutine, which is not 0, and which no other goroutine
// has before this one has ended. It takes a nanosecond on amd64 and arm64, and elsewhere some
// microseconds.
func Goroutine() uintptr { return goroutine() }
