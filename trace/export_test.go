package trace

import "github.com/ferrygpu/ferry/cu"

// ResetEnvironment lets the next call of Environment start a recording.
func ResetEnvironment() {
	environment.mu.Lock()
	defer environment.mu.Unlock()
	environment.recorder = nil
}

// AgeAnchor makes the anchor of a context so old that the next operation needs another one.
// It returns its time, which is negative if it was old already.
func (d *Driver) AgeAnchor(ctx cu.Context) int64 {
	k := d.timer.clock(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.retry = 0
	if k.anchor == nil {
		return -1
	}
	at := k.anchor.at
	k.anchor.at -= 1000 * anchorAge
	return at
}

// Contexts returns the number of contexts that are measured or counted.
func (d *Driver) Contexts() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer.mu.Lock()
	defer d.timer.mu.Unlock()
	return max(len(d.contexts), len(d.timer.contexts))
}

// Known returns the addresses at which the memory begins that the driver knows.
func (d *Driver) Known() (all []uint64) {
	d.memory.mu.RLock()
	defer d.memory.mu.RUnlock()
	for _, r := range d.memory.all {
		all = append(all, r.base)
	}
	return all
}

// Reads reports whether a goroutine reads the times of operations, or sleeps until it does.
func (d *Driver) Reads() bool { return d.timer.reader.armed.Load() }

// DoNotRead keeps the goroutine away that reads times. Waits, and the end of a context, still do.
func (d *Driver) DoNotRead() { d.timer.reader.armed.Store(true) }
