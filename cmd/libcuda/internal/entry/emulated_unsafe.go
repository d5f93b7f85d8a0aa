package entry

import "github.com/ferrygpu/ferry/cu"

// Unsafe: An address of the program is only named to the driver.

//c:hand profileName
func profileName(d cu.Driver, f *Frame) error {
	e := cu.AsEmulated(d)
	if e == nil {
		return cu.ErrorNotSupported
	}
	return put(f.pointer(0), int32(min(f.In[1], 1<<20)), e.Profile())
}

//c:hand virtualNow
func virtualNow(d cu.Driver, f *Frame) error {
	e := cu.AsEmulated(d)
	if e == nil {
		return cu.ErrorNotSupported
	}
	f.Out[0] = uint64(e.Now())
	return nil
}

//c:hand hostAccess
func hostAccess(d cu.Driver, f *Frame) error {
	e := cu.AsEmulated(d)
	if e == nil {
		return cu.ErrorNotSupported
	}
	return e.HostAccess(f.pointer(0), uintptr(f.In[1]), f.In[2] != 0)
}
