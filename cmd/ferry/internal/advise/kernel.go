package advise

import (
	_ "embed"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

//go:embed kernels.ptx
var kernelsPTX string

// blockThreads is the number of threads of a block, unless there are fewer in all.
const blockThreads = 256

// blocksEach is how many blocks of a kernel each multiprocessor has at most, unless the
// access has a thread for each word, or the number of threads is given.
const blocksEach = 4

// tableBlocks is how many blocks read a table.
const tableBlocks = 512

// maxBlocks is the largest grid of every device.
const maxBlocks = 65535

// threads returns how many threads the kernel has on a device with the given number of
// multiprocessors.
func (j *Job) threads(processors int) int {
	words := max(j.In, j.Out) / 4
	switch {
	case j.Threads > 0:
		return j.Threads
	case j.Access.Kind == Table:
		return tableBlocks * blockThreads
	case j.Access.Kind == Stencil:
		return min(words, maxBlocks*blockThreads)
	}
	return min(words, blocksEach*processors*blockThreads)
}

// launch queues the kernel for words of data.
func (l *lab) launch(s *ferry.Stream, in, out ferry.Memory[float32], job *Job) error {
	return l.launchOn(s, in, in.Len(), out, out.Len(), job)
}

// launchOn queues the kernel for inLen words of in and outLen words of out, memory of any type.
func (l *lab) launchOn(s *ferry.Stream, in any, inLen int, out any, outLen int, job *Job) error {
	if job.delay > 0 {
		one := ferry.Cover(1, 1)
		return s.Launch(l.kernels[Stream], one, l.sink, l.sink, l.sink, uint64(0), uint64(0), uint32(1), uint32(0), l.cycles(job.delay))
	}
	if inLen == 0 {
		in = l.sink
	}
	if outLen == 0 {
		out = l.sink
	}
	part := *job
	part.In, part.Out = 4*inLen, 4*outLen
	all := max(1, part.threads(l.processors))
	block := min(all, blockThreads)
	blocks := min((all+block-1)/block, maxBlocks)
	return s.Launch(l.kernels[job.Access.Kind], ferry.Cover(blocks*block, block), in, out, l.sink,
		uint64(inLen), uint64(outLen), uint32(job.Reuse), uint32(job.Access.Number), l.cycles(job.Kernel))
}

// fills reports whether the kernel has enough threads to keep the device busy alone.
func (l *lab) fills(j *Job) bool { return j.threads(l.processors) >= l.processors*blockThreads }

// cycles returns how many cycles of the multiprocessors' clock a time is.
func (l *lab) cycles(t time.Duration) uint64 { return uint64(t.Seconds() * float64(l.clock) * 1000) }

// load loads the kernels.
func (l *lab) load() (err error) {
	if l.processors, err = l.g.Attribute(cu.DeviceAttributeMultiprocessorCount); err != nil {
		return err
	}
	if l.clock, err = l.g.Attribute(cu.DeviceAttributeClockRate); err != nil {
		return err
	}
	m, err := ferry.Load(l.g, []byte(kernelsPTX), nil)
	if err != nil {
		return err
	}
	l.keep(m.Close)
	l.kernels = map[string]*ferry.Kernel{}
	for _, name := range []string{Stream, Stride, Random, Table, Stencil} {
		if l.kernels[name], err = m.Kernel(name); err != nil {
			return err
		}
	}
	return nil
}
