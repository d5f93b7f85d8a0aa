package profile

import (
	"reflect"
)

// Tuning has Ferry's own settings for a machine: the values that were the fastest there in
// measurements. A default that suits most machines replaces a number that is left out.
type Tuning struct {
	// Devices lists the product names of other devices for which these numbers were
	// measured to be good.
	Devices  []string       `json:"devices,omitempty"`
	Wait     WaitTuning     `json:"wait,omitempty"`
	Copy     CopyTuning     `json:"copy,omitempty"`
	Launch   LaunchTuning   `json:"launch,omitempty"`
	Pin      PinTuning      `json:"pin,omitempty"`
	Staging  StagingTuning  `json:"staging,omitempty"`
	Workers  WorkersTuning  `json:"workers,omitempty"`
	Pipeline PipelineTuning `json:"pipeline,omitempty"`
}

// WaitTuning is the settings of waits.
type WaitTuning struct {
	Spin    Number `json:"spin_ns,omitempty"`  // how long a goroutine asks the driver itself, before it sleeps
	Busy    Number `json:"busy_ns,omitempty"`  // how long the poller asks for sleeping goroutines without a pause after something has changed
	Pause   Number `json:"pause_ns,omitempty"` // the shortest pause of the poller
	Waiters Number `json:"waiters,omitempty"`  // if more goroutines wait, all sleep; the default is the number of processors that Go uses
}

// CopyTuning decides which copies a kernel makes, and the grids of its launches.
type CopyTuning struct {
	SmallBytes Number `json:"small_bytes,omitempty"` // a kernel makes a copy of at most this size if it would wait behind a large copy of another stream
	LargeBytes Number `json:"large_bytes,omitempty"` // a copy of at least this size is a large copy

	KernelCopies    Number `json:"kernel_copies,omitempty"`     // the least number of copies for which CopyAll uses a kernel
	KernelCopyBytes Number `json:"kernel_copy_bytes,omitempty"` // the largest average size of copies for which CopyAll uses a kernel

	KernelThreads    Number `json:"kernel_threads,omitempty"`     // threads per block of the copy kernel
	KernelBlockBytes Number `json:"kernel_block_bytes,omitempty"` // the copy kernel has one block for each part of a range of this size
	KernelBlocks     Number `json:"kernel_blocks,omitempty"`      // the most blocks of the copy kernel for one range
}

// LaunchTuning has the launch configuration that fills a device.
type LaunchTuning struct {
	Threads Number `json:"threads,omitempty"` // threads of one block
	Blocks  Number `json:"blocks,omitempty"`  // blocks for each multiprocessor
}

// PinTuning has the settings for page-locking memory and for pools of such memory.
type PinTuning struct {
	From               Number `json:"from_bytes,omitempty"`             // Ferry page-locks requests of at least this size itself; the driver page-locks smaller ones
	MaxRegistration    Number `json:"max_registration_bytes,omitempty"` // the most bytes that are registered at once
	MaxTouchers        Number `json:"max_touchers,omitempty"`           // the most goroutines that touch memory
	SpareProcessors    Number `json:"spare_processors,omitempty"`       // processors that the touching goroutines leave free for other goroutines
	TrialBytes         Number `json:"trial_bytes,omitempty"`            // how much a trial page-locks on pages of each size
	LargeTrialBytes    Number `json:"large_trial_bytes,omitempty"`      // how much a trial page-locks next on the faster pages
	TrialFrom          Number `json:"trial_from_bytes,omitempty"`       // requests of at least this size start a trial, if there was none yet
	SegmentBytes       Number `json:"segment_bytes,omitempty"`          // the least bytes that a pool takes from its source at once, unless its limit leaves fewer
	OwnBytes           Number `json:"own_bytes,omitempty"`              // each cache of a pool keeps its own blocks up to this size, while there are free extents
	ShardsPerProcessor Number `json:"shards_per_processor,omitempty"`   // caches of a pool for each processor
	PollBlocks         Number `json:"poll_blocks,omitempty"`            // how many blocks in flight a request polls
	StealBlocks        Number `json:"steal_blocks,omitempty"`           // how many blocks move from one cache to another at once
}

// StagingTuning is further settings of transfers through the staging ring, besides
// [Staging].
type StagingTuning struct {
	SlotsToDevice     Number `json:"slots_to_device,omitempty"`         // the most slots of one transfer to the device
	MinBlocks         Number `json:"min_blocks,omitempty"`              // the least blocks of a transfer for each worker
	CoordinatorBlocks Number `json:"coordinator_blocks,omitempty"`      // the most blocks of a transfer that its coordinator helps to copy
	ShortChunk        Number `json:"short_chunk_bytes,omitempty"`       // the most that one copy of the device moves in a transfer of less than LongFrom bytes or with few workers
	LongFrom          Number `json:"long_from_bytes,omitempty"`         // transfers of at least this size have chunks of Staging.Chunk
	SmallChunk        Number `json:"small_chunk_bytes,omitempty"`       // size of the slots of transfers without workers
	SmallSlots        Number `json:"small_slots,omitempty"`             // the most slots of that size
	MaxTransfers      Number `json:"max_transfers,omitempty"`           // the most transfers of memory that copy at once; three quarters of the processors without this number
	HoldTime          Number `json:"hold_ns,omitempty"`                 // how long such a transfer waits for the device before another one takes its place
	SlotWait          Number `json:"slot_wait_ns,omitempty"`            // how long a transfer waits for a slot before it falls back to the driver
	SpinTime          Number `json:"spin_ns,omitempty"`                 // how long a wait polls before it sleeps
	SpinsPerYield     Number `json:"spins_per_yield,omitempty"`         // polls between two calls of runtime.Gosched, a power of two
	NonTemporalFrom   Number `json:"non_temporal_from_bytes,omitempty"` // memory of at least this size is written past the caches
	// LastBytes is how many bytes at the end of a transfer to the device bypass the
	// caches. They are stored past them, or moved from the caches of the cores to the
	// shared cache.
	LastBytes  Number `json:"last_bytes,omitempty"`
	DemoteFrom Number `json:"demote_from_bytes,omitempty"` // in transfers of at least this size CLDEMOTE moves the last bytes

	AdaptChunks Number `json:"adapt_chunks,omitempty"` // a transfer of at least this many chunks adapts the number of workers
	IdleShare   Number `json:"idle_share,omitempty"`   // if the workers copied for less than this share of the time, the next transfer has fewer
	BusyShare   Number `json:"busy_share,omitempty"`   // if the workers copied for more than this share of the time, the next transfer has more
}

// WorkersTuning has the settings of the workers that copy for pipelines.
type WorkersTuning struct {
	BlockBytes      Number `json:"block_bytes,omitempty"`      // size of one copy by one goroutine
	MinWorkers      Number `json:"min_workers,omitempty"`      // the least number of goroutines
	SpareProcessors Number `json:"spare_processors,omitempty"` // processors without a worker
	SpinTime        Number `json:"spin_ns,omitempty"`          // how long a worker polls before it sleeps
	SpinChecks      Number `json:"spin_checks,omitempty"`      // polls between two calls of runtime.Gosched
}

// PipelineTuning is the settings of package pipeline.
type PipelineTuning struct {
	PauseBytes       Number `json:"pause_bytes,omitempty"`        // bytes that a copy engine could move during its pause between two copies
	GrowBytes        Number `json:"grow_bytes,omitempty"`         // how fast chunks grow: a chunk has at most sqrt(grow_bytes * bytes before it) bytes
	FirstPart        Number `json:"first_part,omitempty"`         // a chunk has at least 1/first_part of the bytes of the largest chunk
	MinChunk         Number `json:"min_chunk_bytes,omitempty"`    // the least size of the largest chunk
	MaxChunk         Number `json:"max_chunk_bytes,omitempty"`    // the most bytes of the largest chunk, if copy engines move all data
	MaxStaged        Number `json:"max_staged_bytes,omitempty"`   // the most bytes of the largest chunk, if goroutines fill and empty chunks
	MaxDirect        Number `json:"max_direct_bytes,omitempty"`   // the most bytes of the largest chunk, if kernels use memory in place
	MinDepth         Number `json:"min_depth,omitempty"`          // the least number of chunks in flight
	DepthByProcessor Number `json:"depth_by_processor,omitempty"` // chunks in flight for each processor, if goroutines copy
	MaxFileDepth     Number `json:"max_file_depth,omitempty"`     // the most chunks in flight with readers and writers
	MaxPageableDepth Number `json:"max_pageable_depth,omitempty"` // the most chunks in flight with pageable memory only
	ComputeStreams   Number `json:"compute_streams,omitempty"`    // how many chunks can run kernels at once
	PollTime         Number `json:"poll_ns,omitempty"`            // how long a pipeline polls for finished chunks without pauses
	PollsPerYield    Number `json:"polls_per_yield,omitempty"`    // polls between two calls of runtime.Gosched
}

// Known reports whether the profile has a tuning.
func (t *Tuning) Known() bool { return t != nil && t.Wait.Spin.Source != "" }

// Apply copies the numbers that are present in part to the fields with the same names in
// settings. The other fields keep their values. A number without such a field is ignored.
// part is a field of [Tuning], or a [Staging]. settings points to a struct. Apply panics for
// other arguments.
func Apply(part, settings any) {
	from, to := reflect.ValueOf(part), reflect.ValueOf(settings).Elem()
	for i := range from.NumField() {
		n, ok := from.Field(i).Interface().(Number)
		if !ok || n.Source == "" {
			continue
		}
		field := to.FieldByName(from.Type().Field(i).Name)
		if !field.IsValid() {
			continue
		}
		switch field.Kind() {
		case reflect.Float64:
			field.SetFloat(n.Value)
		case reflect.Uintptr:
			field.SetUint(uint64(n.Value))
		default: // int and time.Duration
			field.SetInt(int64(n.Value))
		}
	}
}
