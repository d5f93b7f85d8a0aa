package trace

import (
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// names has the names of kernels, and numbers for streams. A stream's handle can be used
// again by another stream, its number is not.
type names struct {
	mu      sync.RWMutex
	kernels map[cu.Function]string
	streams map[cu.Stream]int
	last    int // number of streams so far
}

// kernel returns the name of a kernel.
func (n *names) kernel(f cu.Function) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if name := n.kernels[f]; name != "" {
		return name
	}
	return "kernel"
}

func (n *names) addKernel(f cu.Function, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.kernels == nil {
		n.kernels = map[cu.Function]string{}
	}
	n.kernels[f] = name
}

// Numbers of streams that no call creates.
const (
	defaultStream   = 0
	perThreadStream = -1
	noStreamNumber  = -2 // of a call or an operation without a stream
)

// stream returns the number of a stream.
func (n *names) stream(s cu.Stream) int {
	switch s {
	case noStream:
		return noStreamNumber
	case 0, cu.StreamLegacy:
		return defaultStream
	case cu.StreamPerThread:
		return perThreadStream
	}
	n.mu.RLock()
	id, ok := n.streams[s]
	n.mu.RUnlock()
	if ok {
		return id
	}
	return n.addStream(s)
}

// addStream gives the handle of a new stream its number.
func (n *names) addStream(s cu.Stream) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.streams == nil {
		n.streams = map[cu.Stream]int{}
	}
	n.last++
	n.streams[s] = n.last
	return n.last
}
