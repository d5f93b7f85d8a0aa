//go:build !linux || !(amd64 || arm64)

package softgpu

import (
	"os"
	"sync/atomic"
)

// The devices say by their attributes that they share nothing here, so that these functions are never
// called.

func processToken() uint64 { return 0 }

func inodeOf(*os.File) (uint64, error) { return 0, errNoVirtualMemory }

func openSharedFile(*sharedRef) (*os.File, uint64, memoryLabel, error) {
	return nil, 0, memoryLabel{}, errNoVirtualMemory
}

func (b *backing) share(memoryLabel) (*os.File, error) { return nil, errNoVirtualMemory }

func mapShared(*os.File, uint64) (*backing, error) { return nil, errNoVirtualMemory }

func (e *eventFile) words() (recorded, done *atomic.Uint64) {
	return new(atomic.Uint64), new(atomic.Uint64)
}
