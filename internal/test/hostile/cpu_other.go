//go:build !unix

package hostile

import "time"

var start = time.Now()

// processorTime returns the time that has passed: this system does not say more.
func processorTime() time.Duration { return time.Since(start) }
