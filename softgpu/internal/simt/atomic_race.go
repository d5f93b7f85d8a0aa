//go:build race && (amd64 || arm64)

package simt

// The atomic instructions on memory that a kernel shares with others, hidden from the
// race detector. Package sync/atomic would report them with the clock of the
// goroutine that happens to interpret the kernel, instead of the clock of the stream.

//go:noescape
func cas32(p *uint32, old, new uint32) bool

//go:noescape
func cas64(p *uint64, old, new uint64) bool

// load32 reads the word with one instruction, because it is aligned.
//
//go:norace
func load32(p *uint32) uint32 { return *p }

//go:norace
func load64(p *uint64) uint64 { return *p }

func swap32(p *uint32, v uint32) uint32 {
	for {
		if old := load32(p); cas32(p, old, v) {
			return old
		}
	}
}

func swap64(p *uint64, v uint64) uint64 {
	for {
		if old := load64(p); cas64(p, old, v) {
			return old
		}
	}
}

func add32(p *uint32, v uint32) uint32 {
	for {
		if old := load32(p); cas32(p, old, old+v) {
			return old + v
		}
	}
}

func add64(p *uint64, v uint64) uint64 {
	for {
		if old := load64(p); cas64(p, old, old+v) {
			return old + v
		}
	}
}
