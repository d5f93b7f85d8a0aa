package entry

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// open opens the driver that the library is. end is called when the process ends.
func open() (d cu.Driver, end func(), err error) {
	d, err = softgpu.Open(softgpu.Options{})
	return d, func() {}, err
}
