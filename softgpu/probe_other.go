//go:build !linux

package softgpu

import "github.com/ferrygpu/ferry/cu"

// probe looks whether n bytes at p can be page-locked. Only Linux tells.
func probe(cu.HostPtr, uintptr, bool) error { return nil }
