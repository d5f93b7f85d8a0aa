//go:build !linux || !(amd64 || arm64)

package softgpu

import "os"

// patternFile returns nil: new memory is filled at once.
func patternFile() *os.File { return nil }

// mapOver does nothing.
func (*contents) mapOver(*backing) bool { return false }

// privateBytes is for memory that mapOver has changed.
func privateBytes([]byte) uint64 { return 0 }
