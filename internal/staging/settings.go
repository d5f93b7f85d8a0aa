package staging

import (
	"runtime"
	"time"
)

// Settings are numbers that depend on the machine. All must be positive. Sizes are in
// bytes.
type Settings struct {
	Chunk   int // the most that one copy of the device moves: the size of a slot
	Slots   int // the most slots of a ring
	Block   int // what one goroutine copies at a time; Chunk is a multiple of it
	Workers int // the most goroutines that copy for one transfer
	// ShortChunk is the most that one copy of the device moves in a transfer of less than LongFrom bytes
	// or with few workers. The slots that it fills then stay in the caches of the processors.
	ShortChunk int
	LongFrom   int
	// SmallChunk is the size of the slots of transfers that their coordinators copy, and
	// SmallSlots is the most slots of that size. Such transfers do not wait for slots of
	// larger ones. When many transfers are active each copies chunks of this size.
	SmallChunk, SmallSlots int
	// SlotsToDevice is the most slots of one transfer to the device. One is filled, one
	// is full, one is read, and one covers delays. More slots are not in the caches when
	// a transfer begins.
	SlotsToDevice int
	// MinBlocks is the least number of blocks of a transfer for each of its workers. A
	// worker takes as long to start as to copy one block.
	MinBlocks int
	// CoordinatorBlocks is the largest number of blocks of a transfer whose coordinator
	// copies from begin to end. It copies a part before the workers wake up, and data that
	// the caller has just written is in the caches of its processor.
	CoordinatorBlocks int

	// MaxTransfers is the most transfers of memory that are active at once: they take slots
	// and copy. Others wait in a queue, and take turns after each Chunk bytes.
	MaxTransfers int
	// HoldTime is how long an active transfer may wait for the device while others are
	// queued. Then the next one is active instead.
	HoldTime time.Duration

	// SlotWait is how long a transfer waits for a slot while other transfers have them
	// all, in streams that do not advance.
	SlotWait time.Duration
	// SpinTime is how long a wait polls, which occupies a processor, before it sleeps.
	SpinTime time.Duration
	// LingerTime is the most time that a worker looks for the next transfer before it sleeps, which
	// occupies a processor. It looks for at most as long as it has worked for the last one.
	LingerTime time.Duration
	// SpinsPerYield is how many spins of some 20 ns a polling goroutine makes between two
	// calls of runtime.Gosched. With a small number all goroutines wait for the lock of the
	// Go scheduler. It is a power of two, because a division takes as long as a spin.
	SpinsPerYield int

	// NonTemporalFrom is the size from which on ordinary memory is written past the
	// caches. Larger memory is in no cache afterwards, and such stores need not read it
	// first: six workers do what took twelve.
	NonTemporalFrom int
	// LastBytes is the number of bytes at the end of a transfer to the device that are
	// stored past the caches, or moved out of them. It is the size of the core-private
	// caches of all workers together.
	LastBytes int
	// DemoteFrom is the size of a transfer from which on its last bytes are moved out of
	// the caches (CLDEMOTE) instead of stored past them. In smaller ones the workers are
	// not ahead of the device.
	DemoteFrom int

	// A transfer of at least AdaptChunks chunks changes how many workers the next one has.
	// Workers that copied for less than IdleShare of the time become fewer. If they copied
	// for more than BusyShare, the device waited for them, and they become more. Shorter
	// transfers say little, because of the time that workers take to begin.
	AdaptChunks          int
	IdleShare, BusyShare float64
}

// DefaultSettings returns settings for a machine that no profile describes. The sizes of its caches
// decide which copies go past them. The other numbers are smaller than what was best on
// an H200 with 16 processors, so that they suit slower machines.
func DefaultSettings() Settings {
	const threads = 8
	c, transfers := hostCaches(), max(2, runtime.GOMAXPROCS(0)*3/4)
	return Settings{
		Chunk:             4 << 20,
		Slots:             8,
		Block:             128 << 10,
		Workers:           threads,
		ShortChunk:        4 << 20,
		LongFrom:          128 << 20,
		SmallChunk:        2 << 20,
		SmallSlots:        2 * transfers,
		SlotsToDevice:     4,
		MinBlocks:         2,
		CoordinatorBlocks: 8,
		MaxTransfers:      transfers,
		HoldTime:          100 * time.Microsecond,
		SlotWait:          2 * time.Millisecond,
		SpinTime:          500 * time.Microsecond,
		LingerTime:        200 * time.Microsecond,
		SpinsPerYield:     4096, // some 80 us
		NonTemporalFrom:   c.last,
		LastBytes:         threads * c.core,
		DemoteFrom:        2 * threads * c.core,
		AdaptChunks:       32,
		IdleShare:         0.5,
		BusyShare:         0.9,
	}
}

// smallChunk returns SmallChunk as a multiple of Block that is at most Chunk.
func (s *Settings) smallChunk() int { return min(max(1, s.SmallChunk/s.Block)*s.Block, s.Chunk) }

// chunk returns the most that one copy of the device moves in a transfer of some bytes. few says that it has
// less than half of the workers that Chunk was measured with.
func (s *Settings) chunk(bytes int64, few bool) int {
	if bytes < int64(s.LongFrom) || few {
		return min(max(1, s.ShortChunk/s.Block)*s.Block, s.Chunk) // a block may be larger than a chunk
	}
	return s.Chunk
}

// With fewProcessors or less a wait that polls takes a processor that a worker needs, so it polls for
// fewSpin at most. With three processors that is not so.
const (
	fewProcessors = 2
	fewSpin       = 20 * time.Microsecond
)
