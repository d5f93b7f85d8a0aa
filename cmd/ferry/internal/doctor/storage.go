package doctor

import "github.com/ferrygpu/ferry/internal/cufile"

// checkDirectStorage says whether disks could write into the memory of the GPU. It is no fault if they
// cannot: cuFile then reads through host memory, as Ferry always does.
func (p *patient) checkDirectStorage() Check {
	if version := cufile.Module(p.FS); version != "" {
		return ok("nvidia-fs " + version + ": cuFile can go past host memory")
	}
	return ok("no nvidia-fs: cuFile would copy through host memory")
}
