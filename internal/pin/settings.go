package pin

// Settings are numbers that depend on the machine. All must be positive.
type Settings struct {
	// MaxRegistration is the most bytes that are registered at once, a multiple of a huge
	// page. Larger registrations are not faster, and keep other processes of the machine
	// waiting for longer.
	MaxRegistration uintptr
	// MaxTouchers bounds how many goroutines touch memory. Twelve do it about as fast as
	// the host of an H200 can, and many more would only hinder others. SpareProcessors is
	// how many processors they leave to the goroutine that registers and to others.
	MaxTouchers, SpareProcessors int
	// TrialBytes is how much a trial page-locks on pages of each size, and
	// LargeTrialBytes how much it page-locks next, on the pages that were faster. A request
	// of LargeTrialBytes also tells how long the next one will take.
	TrialBytes, LargeTrialBytes uintptr
	// TrialFrom is the least size of a request before which the engine runs a trial to find
	// the faster pages, if it has run none. The trial takes a few per cent of the request.
	TrialFrom uintptr

	// SegmentBytes is the least that a pool takes from its source. Blocks of up to that
	// size are cached. Larger ones are joined at once with what is free next to them.
	SegmentBytes uintptr
	// OwnBytes is the largest size of blocks for which a cache makes a new block from a free
	// extent before it takes one from another cache. If the caches shared all blocks of
	// these sizes, one of them would always lack blocks and search the others.
	OwnBytes uintptr
	// ShardsPerProcessor is how many caches a pool has for each processor, so that two
	// goroutines seldom have the same one.
	ShardsPerProcessor int
	// PollBlocks is how many blocks in flight a request polls before it searches further.
	PollBlocks int
	// StealBlocks is how many more blocks move to a cache when it takes one from another
	// cache. To look through the caches costs as much for one block as for several.
	StealBlocks int
}

// DefaultSettings returns the settings for a machine that no profile describes. They
// touch memory with fewer goroutines than is best on an H200 with 16 processors.
func DefaultSettings() Settings {
	return Settings{
		MaxRegistration:    256 << 20,
		MaxTouchers:        8,
		SpareProcessors:    1,
		TrialBytes:         16 << 20,
		LargeTrialBytes:    256 << 20,
		TrialFrom:          4 << 30,
		SegmentBytes:       32 << 20,
		OwnBytes:           1 << 20,
		ShardsPerProcessor: 4,
		PollBlocks:         4,
		StealBlocks:        16,
	}
}
