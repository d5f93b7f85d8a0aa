package softgpu

import threads "github.com/ferrygpu/ferry/internal/thread"

// threadID returns the number of the thread that makes the call: of the goroutine, or in a library
// for C programs of the thread of the system. Default streams of threads, captures and their modes
// belong to it.
func threadID() uint64 {
	if id, ok := threads.ID(); ok {
		return id
	}
	return goid()
}

// endThread drops what belongs to a thread that has ended, as CUDA does. Work in its default streams
// goes on to its end. A capture that the thread began stays: a relaxed one can be ended elsewhere.
func (d *Driver) endThread(id uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.captureModes, id)
	for _, c := range d.contexts() {
		if s := c.perThread[id]; s != nil {
			delete(c.perThread, id)
			s.drop()
		}
	}
}
