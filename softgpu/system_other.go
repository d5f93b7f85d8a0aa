//go:build !linux

package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
)

const knowsMappings = false

// mappingAt finds nothing, because only Linux lists its mappings.
func mappingAt(uint64) (mapping, bool) { return mapping{}, false }

// hugePages returns false, because only Linux reports huge pages.
func hugePages(base, end uint64) bool { return false }

// resident returns 0: only Linux is asked.
func resident([]byte) uint64 { return 0 }

// probe finds invalid memory on Linux only.
func probe(cu.HostPtr, uintptr, bool) error { return nil }
