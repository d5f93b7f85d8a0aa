package workers

import "time"

// Settings are numbers that depend on the machine. All must be positive.
type Settings struct {
	// BlockBytes is how much one worker of a queue copies at a time. Workers share a
	// chunk in blocks of this size.
	BlockBytes int
	// MinWorkers is the least number of workers of a queue, and SpareProcessors is how
	// many processors those workers leave to other goroutines.
	MinWorkers, SpareProcessors int
	// SpinTime is how long a worker of a queue polls for a block before it sleeps. A
	// chunk of 4 MiB is copied in 100 us, and it takes half of that to wake a goroutine.
	SpinTime time.Duration
	// SpinChecks is how often such a worker polls before it lets other goroutines have
	// the processor.
	SpinChecks int
}

// DefaultSettings returns the settings for a machine that no profile describes.
func DefaultSettings() Settings {
	return Settings{
		BlockBytes:      256 << 10,
		MinWorkers:      2,
		SpareProcessors: 1,
		SpinTime:        200 * time.Microsecond,
		SpinChecks:      4 << 10, // some 20 us
	}
}
