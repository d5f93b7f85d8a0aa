package uvm

// Work is what a call made the driver do.
type Work struct {
	Batches int // of faults of a device, with a flush and a replay each
	Blocks  int // services of a block, one a batch
	Faults  int // of pages, a page once a batch
	Begun   int // blocks that nobody had touched before

	In, Out, Peer          uint64 // bytes copied from the CPU, to it, and between devices
	InRuns, OutRuns, Peers int    // copies of neighbouring pages that were
	Zeroed                 uint64 // bytes of pages that nobody had touched

	Remote  int     // pages that faulted and were mapped where they are, over the link
	Evicted int     // blocks; their bytes are in Out
	Slept   float64 // ns that a throttled processor waited
}

// Add adds o.
func (w *Work) Add(o Work) {
	w.Batches += o.Batches
	w.Blocks += o.Blocks
	w.Faults += o.Faults
	w.Begun += o.Begun
	w.In += o.In
	w.Out += o.Out
	w.Peer += o.Peer
	w.InRuns += o.InRuns
	w.OutRuns += o.OutRuns
	w.Peers += o.Peers
	w.Zeroed += o.Zeroed
	w.Remote += o.Remote
	w.Evicted += o.Evicted
	w.Slept += o.Slept
}

// Price is the time of a piece of work in nanoseconds.
type Price func(Work) float64
