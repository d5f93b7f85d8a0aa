//go:build !linux || !(amd64 || arm64)

package softgpu

import (
	"errors"
	"os"
)

// virtualMemory is false: here no memory can be mapped at several addresses. The devices say so
// by their attributes, so that the functions below are never called.
const virtualMemory = false

var errNoVirtualMemory = errors.New("this system has no memory that can be mapped twice")

func newMemoryFile(uint64, memoryLabel) (*os.File, error) { return nil, errNoVirtualMemory }

func duplicate(uintptr) (int32, error) { return -1, errNoVirtualMemory }

func openMemoryFile(int32) (*os.File, uint64, memoryLabel, error) {
	return nil, 0, memoryLabel{}, errNoVirtualMemory
}

func reserveRange(uint64) (*backing, error) { return nil, errNoVirtualMemory }

func mapFile([]byte, *os.File) error { return errNoVirtualMemory }

func unmapFile([]byte) error { return errNoVirtualMemory }
