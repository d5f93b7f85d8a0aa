package pipeline

import (
	"time"

	"github.com/ferrygpu/ferry/internal/staging"
	"github.com/ferrygpu/ferry/internal/workers"
	"github.com/ferrygpu/ferry/profile"
)

// tuning has the numbers about a machine that a pipeline uses for its decisions. Package profile has
// those of machines that were measured; the defaults suit most others.
type tuning struct {
	chunks  chunkTuning
	workers workers.Settings

	nonTemporalFrom int // bytes: memory of at least this size is written past the caches
}

// chunkTuning says how long chunks are, how many are in flight, and how they are waited
// for. Bytes are those of the endpoint with the largest elements.
type chunkTuning struct {
	PauseBytes int // bytes that a copy engine could move in its pause between two chunks, which is 8 us on an H200
	GrowBytes  int // how fast chunks grow: a chunk has sqrt(GrowBytes * bytes before it) bytes
	FirstPart  int // chunks have at least 1/FirstPart of the bytes of the largest
	MinChunk   int // bytes of the largest chunk, at least
	MaxChunk   int // the same, at most, if engines copy all data
	MaxStaged  int // the same, if goroutines fill and empty chunks
	MaxDirect  int // the same, if kernels use all memory where it is

	MinDepth         int // chunks; also the depth where the CPU moves nothing
	DepthByProcessor int // chunks for each processor, where goroutines fill and empty them
	MaxFileDepth     int // chunks, with readers or writers, which may be slow
	MaxPageableDepth int // chunks, with pageable memory only: more would not stay in the caches
	ComputeStreams   int // chunks whose kernels can run at once

	PollTime      time.Duration // for how long polls have no pauses: longer than a chunk takes that is only copied
	PollsPerYield int           // polls before other goroutines may have the processor
}

// tuningFor returns the tuning of the machine that a profile describes; nil is any machine.
func tuningFor(p *profile.Profile) tuning {
	ring := staging.DefaultSettings()
	t := tuning{workers: workers.DefaultSettings(), chunks: chunkTuning{
		PauseBytes: 400 << 10, GrowBytes: 1 << 20, FirstPart: 10,
		MinChunk: 256 << 10, MaxChunk: 16 << 20, MaxStaged: 4 << 20, MaxDirect: 64 << 20,
		MinDepth: 4, DepthByProcessor: 2, MaxFileDepth: 16, MaxPageableDepth: 10, ComputeStreams: 3,
		PollTime: time.Millisecond, PollsPerYield: 16,
	}}
	if p != nil {
		profile.Apply(p.Tuning.Pipeline, &t.chunks)
		profile.Apply(p.Tuning.Workers, &t.workers)
		profile.Apply(p.Tuning.Staging, &ring)
	}
	t.nonTemporalFrom = ring.NonTemporalFrom
	return t
}

const (
	// evenLen is how many elements the lengths of chunks are a multiple of: then buffers
	// are aligned as the driver aligns memory, to 256 bytes.
	evenLen = 256
	// memoryShare is the part of the GPU's free memory that chunks take at most: half of
	// it, as kernels need memory, too.
	memoryShare = 2
	// queuedBlocks is the capacity of the queue of copies, in blocks for each chunk in
	// flight.
	queuedBlocks = 64
	// After PollTime a pause is 1/pausePart of the time since the last chunk was done, and
	// maxPause at most.
	pausePart = 16
	maxPause  = time.Millisecond
)
