package profile

import (
	"reflect"
	"slices"
)

// Tuning is what Ferry decides by on a machine: what was measured to be best there. A
// number that is missing is replaced by a default that suits most machines.
type Tuning struct {
	// Devices are the product names of other devices that were measured with these
	// numbers and found to suit them.
	Devices  []string       `json:"devices,omitempty"`
	Wait     WaitTuning     `json:"wait,omitempty"`
	Copy     CopyTuning     `json:"copy,omitempty"`
	Launch   LaunchTuning   `json:"launch,omitempty"`
	Pin      PinTuning      `json:"pin,omitempty"`
	Staging  StagingTuning  `json:"staging,omitempty"`
	Workers  WorkersTuning  `json:"workers,omitempty"`
	Pipeline PipelineTuning `json:"pipeline,omitempty"`
}

// WaitTuning is how waits are made.
type WaitTuning struct {
	// Spin is how long a wait with a context polls the driver before it takes a goroutine.
	Spin Number `json:"spin_ns,omitempty"`
}

// CopyTuning is which way copies take.
type CopyTuning struct {
	// A copy of at most SmallBytes that would wait behind one of at least LargeBytes in
	// another stream is made by a kernel.
	SmallBytes Number `json:"small_bytes,omitempty"`
	LargeBytes Number `json:"large_bytes,omitempty"`
	// CopyAll takes the kernel for at least KernelCopies copies of at most
	// KernelCopyBytes on average.
	KernelCopies    Number `json:"kernel_copies,omitempty"`
	KernelCopyBytes Number `json:"kernel_copy_bytes,omitempty"`
	// A launch of the kernel has blocks of KernelThreads threads, one for each
	// KernelBlockBytes of a range, and at most KernelBlocks for a range.
	KernelThreads    Number `json:"kernel_threads,omitempty"`
	KernelBlockBytes Number `json:"kernel_block_bytes,omitempty"`
	KernelBlocks     Number `json:"kernel_blocks,omitempty"`
}

// LaunchTuning is the launches that fill a device.
type LaunchTuning struct {
	Threads Number `json:"threads,omitempty"` // of a block
	Blocks  Number `json:"blocks,omitempty"`  // for each multiprocessor
}

// PinTuning is how page-locked memory is made and kept.
type PinTuning struct {
	// From is the size from which on Ferry page-locks by itself, below it the driver.
	From               Number `json:"from_bytes,omitempty"`
	MaxRegistration    Number `json:"max_registration_bytes,omitempty"` // the most bytes that are registered at once
	MaxTouchers        Number `json:"max_touchers,omitempty"`           // the most goroutines that touch memory
	SpareProcessors    Number `json:"spare_processors,omitempty"`       // processors that they leave to others
	TrialBytes         Number `json:"trial_bytes,omitempty"`            // what a trial page-locks on pages of each size
	LargeTrialBytes    Number `json:"large_trial_bytes,omitempty"`      // what it page-locks next on the faster pages
	TrialFrom          Number `json:"trial_from_bytes,omitempty"`       // the size of a request that makes a trial unasked
	SegmentBytes       Number `json:"segment_bytes,omitempty"`          // the least that a pool takes at once
	OwnBytes           Number `json:"own_bytes,omitempty"`              // blocks up to this size are not shared by a pool's caches
	ShardsPerProcessor Number `json:"shards_per_processor,omitempty"`   // caches of a pool
	PollBlocks         Number `json:"poll_blocks,omitempty"`            // blocks in flight that a request looks at
	StealBlocks        Number `json:"steal_blocks,omitempty"`           // blocks that move from one cache to another at once
}

// StagingTuning is how transfers through the staging ring work, besides [Staging].
type StagingTuning struct {
	SlotsToDevice     Number `json:"slots_to_device,omitempty"`    // the most slots of one transfer to the device
	MinBlocks         Number `json:"min_blocks,omitempty"`         // blocks for each worker, at least
	CoordinatorBlocks Number `json:"coordinator_blocks,omitempty"` // a transfer of at most so many blocks is copied by its caller, too
	SlotWait          Number `json:"slot_wait_ns,omitempty"`       // how long a transfer waits for a slot before it falls back to the driver
	SpinTime          Number `json:"spin_ns,omitempty"`            // how long a wait polls before it sleeps
	SpinsPerYield     Number `json:"spins_per_yield,omitempty"`    // a power of two
	// Memory of at least this size is written past the caches.
	NonTemporalFrom Number `json:"non_temporal_from_bytes,omitempty"`
	// The last so many bytes of a transfer to the device are moved out of the caches of
	// single cores, by CLDEMOTE in transfers of at least DemoteFrom bytes.
	LastBytes  Number `json:"last_bytes,omitempty"`
	DemoteFrom Number `json:"demote_from_bytes,omitempty"`
	// A transfer of at least AdaptChunks chunks whose workers copied for less than
	// IdleShare or for more than BusyShare of the time changes how many there are.
	AdaptChunks Number `json:"adapt_chunks,omitempty"`
	IdleShare   Number `json:"idle_share,omitempty"`
	BusyShare   Number `json:"busy_share,omitempty"`
}

// WorkersTuning is the goroutines that copy for pipelines.
type WorkersTuning struct {
	BlockBytes      Number `json:"block_bytes,omitempty"`      // of one copy of one goroutine
	MinWorkers      Number `json:"min_workers,omitempty"`      // goroutines, at least
	SpareProcessors Number `json:"spare_processors,omitempty"` // processors without a worker
	SpinTime        Number `json:"spin_ns,omitempty"`          // how long a worker polls before it sleeps
	SpinChecks      Number `json:"spin_checks,omitempty"`      // polls before others may have the processor
}

// PipelineTuning is the chunks of package pipeline.
type PipelineTuning struct {
	PauseBytes       Number `json:"pause_bytes,omitempty"`        // what a copy engine could move in its pause between two copies
	GrowBytes        Number `json:"grow_bytes,omitempty"`         // a chunk has at most the root of this times the bytes before it
	FirstPart        Number `json:"first_part,omitempty"`         // the first chunk has this part of the largest: 10 is a tenth
	MinChunk         Number `json:"min_chunk_bytes,omitempty"`    // of the largest chunk, at least
	MaxChunk         Number `json:"max_chunk_bytes,omitempty"`    // at most, where engines copy all
	MaxStaged        Number `json:"max_staged_bytes,omitempty"`   // at most, where goroutines fill and empty chunks
	MaxDirect        Number `json:"max_direct_bytes,omitempty"`   // at most, where kernels use memory in place
	MinDepth         Number `json:"min_depth,omitempty"`          // chunks in flight
	DepthByProcessor Number `json:"depth_by_processor,omitempty"` // for each processor, where goroutines copy
	MaxFileDepth     Number `json:"max_file_depth,omitempty"`     // at most, with readers and writers
	MaxPageableDepth Number `json:"max_pageable_depth,omitempty"` // at most, with pageable memory only
	ComputeStreams   Number `json:"compute_streams,omitempty"`    // chunks whose kernels may run at once
	PollTime         Number `json:"poll_ns,omitempty"`            // how long finished chunks are polled for without pauses
	PollsPerYield    Number `json:"polls_per_yield,omitempty"`    // polls before others may have the processor
}

// ForDevice is the tuning that was measured on devices of a product name, nil if there
// is none.
func ForDevice(title string) *Profile {
	for _, name := range Names() {
		p, err := Named(name)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		if p.Title == title && p.Tuning.Known() || slices.Contains(p.Tuning.Devices, title) {
			return p
		}
	}
	return nil
}

// Known reports whether the profile has a tuning.
func (t *Tuning) Known() bool { return t.Wait.Spin.Source != "" }

// Apply replaces defaults by the numbers of a part of a Tuning, or of [Staging], that
// are there. settings points to a struct; a number goes to the field of its name.
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
