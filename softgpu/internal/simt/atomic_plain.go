//go:build !race || (!amd64 && !arm64)

package simt

import "sync/atomic"

// The atomic instructions on memory that a kernel shares with others.

func load32(p *uint32) uint32               { return atomic.LoadUint32(p) }
func load64(p *uint64) uint64               { return atomic.LoadUint64(p) }
func add32(p *uint32, v uint32) uint32      { return atomic.AddUint32(p, v) }
func add64(p *uint64, v uint64) uint64      { return atomic.AddUint64(p, v) }
func swap32(p *uint32, v uint32) uint32     { return atomic.SwapUint32(p, v) }
func swap64(p *uint64, v uint64) uint64     { return atomic.SwapUint64(p, v) }
func cas32(p *uint32, old, new uint32) bool { return atomic.CompareAndSwapUint32(p, old, new) }
func cas64(p *uint64, old, new uint64) bool { return atomic.CompareAndSwapUint64(p, old, new) }
