package pin

import "time"

// Prediction is what page-locking will take.
type Prediction struct {
	Time  time.Duration
	Huge  bool   // on huge pages
	Error *Error // why it cannot succeed; nil if no reason is known
}

// cost is how long a request takes: a fixed time, and a time for each byte. The zero cost
// is not known.
type cost struct {
	fixed, perByte float64 // seconds
}

func (c cost) of(bytes uintptr) time.Duration {
	return time.Duration((c.fixed + c.perByte*float64(bytes)) * float64(time.Second))
}
