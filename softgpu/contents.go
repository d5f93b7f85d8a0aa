package softgpu

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// contents is what new device and page-locked memory holds. Hardware gives a process memory of
// zeros, and later memory that the process itself has freed: see SEMANTICS.md. Neither may be
// relied on. So under Lazy and Random new memory holds a pattern. Under Eager it is zero, and
// its *contents is nil. Managed memory and variables of modules are always zero.
//
// Where the system can, memory takes the pattern when it is first touched. So the first large
// allocation of a driver writes up to 32 MiB of pattern; later ones take neither time nor memory.
type contents struct {
	random bool
	seed   uint64
	mu     sync.Mutex
	file   *os.File // holds the pattern, nil before the first use and where there is none
	filled int      // bytes of the file
	made   []byte   // the pattern, where there is no file
}

// patternBytes is the length after which a pattern repeats.
const patternBytes = 32 << 20

// fillAlways is the size up to which memory is filled at once: a mapping would cost more.
const fillAlways = 64 << 10

// patternMappings counts the live mappings of patterns in this process. The system has a limit
// for all mappings of a process, 65530 by default on Linux. A process beyond it ends, because the
// Go runtime gets no memory.
var patternMappings atomic.Int64

// mostMappings bounds patternMappings. Memory for which no mapping is left stays zero. One is
// needed for each 32 MiB, and for each allocation.
const mostMappings = 16384

// takeMapping counts a mapping of a pattern. It returns false if there are too many.
func takeMapping() bool {
	if patternMappings.Add(1) <= mostMappings {
		return true
	}
	patternMappings.Add(-1)
	return false
}

// fillMost is how many bytes are filled at once, where the system cannot fill memory when it is
// touched but takes none before. Larger memory is zero.
const fillMost = 64 << 20

// lazyPattern is the pattern under Lazy. Each aligned part of 2, 4 or 8 bytes is a NaN in every
// floating-point format, and each of 1 byte in those of 8 bits. As an integer it is 32767, or
// 2147450879, which is out of the bounds of most arrays.
const lazyPattern = 0x7fff7fff7fff7fff

// lazyContents are those of all drivers with the schedule Lazy.
var lazyContents contents

// newContents returns the contents of new memory under a schedule.
func newContents(s Schedule, seed uint64) *contents {
	switch s {
	case Lazy:
		return &lazyContents
	case Random:
		return &contents{random: true, seed: seed}
	}
	return nil
}

// patternStep is how many bytes a pattern grows by. Under Random each has its own seed.
const patternStep = 1 << 20

// pattern returns the bytes from..to of the pattern, both of them multiples of patternStep.
func (c *contents) pattern(from, to int) []byte {
	b := make([]byte, 0, to-from)
	for at := from; at < to; at += patternStep {
		rng := rand.NewPCG(c.seed, uint64(at))
		for range patternStep / 8 {
			word := uint64(lazyPattern)
			if c.random {
				word = rng.Uint64()
			}
			b = binary.LittleEndian.AppendUint64(b, word)
		}
	}
	return b
}

// put gives b the contents of new memory. Errors of the system do no harm: memory that cannot
// have the pattern is filled with it or, if it is large, stays zero. It also stays zero when there
// are too many mappings: many allocations, filled at once, could take all memory of the computer.
func (c *contents) put(b *backing) {
	if c == nil || len(b.data) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch maps := b.unmap != nil && len(b.data) > fillAlways; {
	case maps && c.mapOver(b):
	case maps && patternMappings.Load() >= mostMappings:
	case !reservesLazily || b.unmap == nil || len(b.data) <= fillMost:
		c.fill(b.data)
	}
}

// putFile gives the first n bytes of a file the contents of new memory. Of large files only the first
// and the last patternBytes get them, and the rest stays zero, because the system cannot fill shared
// memory when it is first touched.
func (c *contents) putFile(file *os.File, n uint64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.make(int(min(n, patternBytes)))
	parts := []uint64{0}
	switch {
	case n > fillMost:
		parts = append(parts, n-patternBytes)
	case n > patternBytes:
		parts = append(parts, patternBytes)
	}
	for _, off := range parts {
		if _, err := file.WriteAt(c.made[:min(patternBytes, n-off)], int64(off)); err != nil {
			return
		}
	}
}

// make makes the pattern for n bytes.
func (c *contents) make(n int) {
	if need := min(n, patternBytes); len(c.made) < need {
		c.made = append(c.made, c.pattern(len(c.made), int(roundUp(uint64(need), patternStep)))...)
	}
}

// fill writes the pattern.
func (c *contents) fill(data []byte) {
	c.make(len(data))
	for off := 0; off < len(data); off += patternBytes {
		moveBytes(data[off:min(len(data), off+patternBytes)], c.made)
	}
}

// grow makes the file hold the first n bytes of the pattern. It returns false if there is no
// file.
func (c *contents) grow(n int) bool {
	if c.file == nil {
		if c.file = patternFile(); c.file == nil {
			return false
		}
	}
	if c.filled >= n {
		return true
	}
	to := min(patternBytes, int(roundUp(uint64(n), patternStep)))
	if _, err := c.file.WriteAt(c.pattern(c.filled, to), int64(c.filled)); err != nil {
		return false
	}
	c.filled = to
	return true
}

// FreshHost gives page-locked memory that a program has made without MemHostAlloc, and that it
// has not written yet, the contents of new memory: nothing under Eager, else a pattern. Package
// ferry calls it for memory of AllocHost.
func (d *Driver) FreshHost(p cu.HostPtr, bytes uintptr) {
	if c := d.contents; c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fill(bytesAt(p, uint64(bytes)))
	}
}
