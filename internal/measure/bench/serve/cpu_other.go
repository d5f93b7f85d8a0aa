//go:build !unix

package serve

import "time"

// cpuTime returns 0: this system's call is not used.
func cpuTime() time.Duration { return 0 }
