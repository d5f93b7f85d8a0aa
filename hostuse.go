package ferry

import (
	"github.com/ferrygpu/ferry/internal/account"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// HostUse is how much host memory is page-locked, in bytes, by what asked for it: see [HostStats].
type HostUse struct {
	// Allocated is of [AllocHost], and Pooled of [PinnedPool], with what the pools keep for later.
	Allocated, Pooled int
	// Registered is of [Register]. Bytes that several buffers share count once.
	Registered int
	// Staging is of the staging ring (see [GPU.Staging]), and Pipelines of package pipeline where it
	// has no pool.
	Staging, Pipelines int
	// Locked is the sum of these, and MostLocked the most that it was.
	Locked, MostLocked int
	// Limit is that of [GPU.LimitHost]. 0 is none.
	Limit int
}

// HostStats returns how much host memory Ferry has page-locked for a GPU. It does not call the
// driver, and takes well under a microsecond. GPUs of one device and driver share the figures, as they
// share the context.
//
// Memory counts from the call that page-locks it until the driver has unlocked it. So memory that the
// driver did not free stays in the figures. Memory of [WrapHost], and what a program page-locks by
// [GPU.Driver], does not count. Neither does managed memory, which is not page-locked. Counted are the
// bytes that were asked for; the system locks the whole pages that they are in.
//
// HostStats also works for a closed GPU, whose open buffers still have memory. The error is that of a
// nil GPU.
func HostStats(g *GPU) (HostUse, error) {
	if err := mayRead(g, "read what is page-locked"); err != nil {
		return HostUse{}, err
	}
	u := g.account.Use()
	return HostUse{
		Allocated: u.By[account.Allocated], Pooled: u.By[account.Pooled], Registered: u.By[account.Registered],
		Staging: u.By[account.Staging], Pipelines: u.By[account.Pipelines],
		Locked: u.Locked, MostLocked: u.Most, Limit: u.Limit,
	}, nil
}

// mayRead returns an error for a nil GPU, and in a forked child.
func mayRead(g *GPU, what string) error {
	switch {
	case g.none():
		return errNoGPU(what)
	case forked.Child():
		return forked.New(what)
	}
	return nil
}

// MemoryPlace is memory that was made by one line of the program, through the same calls: see
// [MemoryPlaces].
type MemoryPlace struct {
	// Kind is "page-locked" for AllocHost, "pooled", "registered", "staging" or "pipeline" for other
	// page-locked memory, as [HostUse] divides it, or "device" or "managed".
	Kind string
	// Stack has the program counters of the calls, the innermost first, for runtime.CallersFrames.
	// Calls inside Ferry and the Go runtime are left out.
	Stack []uintptr
	// Bytes and Buffers are in use now.
	Bytes, Buffers int
	// AllBytes and AllBuffers were made since [GPU.RecordPlaces].
	AllBytes, AllBuffers int64
}

// MemoryPlaces returns where the program has made memory that was recorded: see [GPU.RecordPlaces].
// The places with the most bytes in use come first. Places that have no memory any more stay in the
// list, because of AllBytes. It works for a closed GPU, too. The error is that of a nil GPU.
//
// Memory of a pool is that of the call for which the pool page-locked it, and memory of the staging
// ring that of the copy that first needed it, because both stay for later calls.
func MemoryPlaces(g *GPU) ([]MemoryPlace, error) {
	if err := mayRead(g, "read where memory was made"); err != nil {
		return nil, err
	}
	var all []MemoryPlace
	for _, p := range g.account.Places.List() {
		all = append(all, MemoryPlace{p.Kind, p.Stack, p.Bytes, p.Buffers, p.AllBytes, p.AllCount})
	}
	return all, nil
}

// RecordPlaces begins or ends the recording of where memory is made, page-locked and device memory
// alike: that of all calls of Ferry that allocate, but not of memory that other libraries made, of
// [Import], and of what the program allocates by [GPU.Driver]. [MemoryPlaces] returns it. Only memory made
// while it is on is recorded. When it is off, what was recorded stays, and memory that is freed is
// still subtracted. It costs a call stack, about a microsecond, for each allocation, and nothing when
// it is off. GPUs of one device and driver share it. It is safe for concurrent use, and does nothing
// for a nil GPU.
func (g *GPU) RecordPlaces(on bool) {
	if !g.none() {
		g.account.Places.Record(on)
	}
}

// LimitHost limits how much host memory Ferry page-locks for the GPU, of all kinds together: see
// [HostUse]. 0 ends the limit. GPUs of one device and driver share it. What is page-locked already
// stays so. A request beyond the limit does this:
//
//   - [AllocHost] and [Register] return a [*PinError] that wraps cu.ErrorOutOfMemory. It says what is
//     used by which kind.
//   - A [PinnedPool] first frees its own unused memory. Then [Host.Alloc] returns the error, and
//     [Host.AllocContext] waits for memory.
//   - The staging ring goes on with the slots that it has. With none, the driver makes copies of
//     pageable memory. [CopyFrom], [CopyTo] and the like cannot go on without a slot, so the ring takes
//     one beyond the limit. Each transfer looks anew whether there is room for more.
//   - A pipeline without a pool takes smaller chunks, unless the program has chosen ChunkLen or they would
//     be very small: then Run returns the error.
//   - [Staging.Warm] returns the error.
//
// The error wraps cu.ErrorInvalidValue for a negative limit. It is safe for concurrent use.
func (g *GPU) LimitHost(bytes int) error {
	const what = "limit page-locked memory"
	if err := g.enter(what); err != nil {
		return err
	}
	defer g.leave()
	if bytes < 0 {
		return refusal.Invalid("%s of %s to %d bytes: it cannot be negative: use 0 for no limit", what, g.label, bytes)
	}
	g.account.SetLimit(bytes)
	return nil
}
