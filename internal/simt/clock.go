package simt

// A warp's time is the instructions that it has run, and its sleep, so that
// kernels that look at a clock do the same on every run and every computer.

// promptLooks is how often in a row a warp sees what its instructions take. One
// that looks again and again waits for time to pass: then each look takes longer
// than the one before. One that looks at memory, too, may wait for somebody else,
// and its clock is not hurried.
const (
	promptLooks = 256
	lookGrowth  = 1.02
)

// ran is how many instructions w has run.
func (w *warp) ran() uint64 { return w.issued + w.k.instructions - w.began }

// elapsed is w's time in nanoseconds since its block began.
func (w *warp) elapsed() uint64 {
	ns := w.slept + uint64(float64(w.ran())*w.k.x.latency)
	w.k.stats.Nap = max(w.k.stats.Nap, ns)
	return ns
}

// look is elapsed for a kernel that reads a clock.
func (w *warp) look() uint64 {
	if w.watched {
		w.looks, w.hurry, w.watched = 0, 0, false
	}
	if w.looks++; w.looks > promptLooks {
		w.hurry = max(w.hurry, 1) * lookGrowth
		w.slept += uint64(w.hurry)
	}
	return w.elapsed()
}

// clock is %clock64.
func (w *warp) clock() uint64 { return uint64(float64(w.look()) * w.k.x.hz / 1e9) }

// now is %globaltimer, in nanoseconds.
func (w *warp) now() uint64 { return w.k.x.l.Began + w.look() }

// sleep is nanosleep.
func (w *warp) sleep(ns uint32) {
	w.slept += uint64(ns)
	w.elapsed()
}

// OrderStep is a step of Pages.Order. Accesses with the same order divided by it
// are under way at once: loads, or stores, of the blocks of a wave within 32
// instructions of each thread.
const OrderStep = 1 << orderBlockBits

const (
	orderBlockBits = 24
	orderStepBits  = 24
	orderStride    = 5 // of instructions
)

// order is when an access of w happens, as in Pages.Order: by wave of blocks, then
// by instructions run, stores after the loads that they probably wait for. Blocks of a wave run side by side on many multiprocessors,
// whose accesses arrive in no order of theirs: they are mixed, always in one way.
func (w *warp) order(write bool) uint64 {
	n := w.b.number
	wave, place := uint64(0), n
	if r := w.k.x.l.Resident; r > 0 {
		wave, place = n/uint64(r), n%uint64(r)
	}
	step := w.ran() >> orderStride << 1
	if write {
		step++
	}
	step = min(step, 1<<orderStepBits-1)
	return min(wave, 1<<15)<<(orderStepBits+orderBlockBits) | step<<orderBlockBits | max(1, uint64(uint32(place)*0x9e3779b1>>(32-orderBlockBits)))
}
