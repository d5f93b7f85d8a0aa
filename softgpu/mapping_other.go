//go:build !linux

package softgpu

const tellsMappings = false

// mappingAt finds nothing: only Linux tells what is mapped.
func mappingAt(uint64) (mapping, bool) { return mapping{}, false }
