//go:build !linux

package softgpu

// mappingAt finds nothing: only Linux tells what is mapped.
func mappingAt(uint64) (mapping, bool) { return mapping{}, false }
