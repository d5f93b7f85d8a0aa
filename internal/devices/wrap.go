package devices

import (
	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/trace"
)

// Wrap wraps a driver as FERRY_FAULT, FERRY_TRACE and FERRY_CHECK ask for it; check is the
// outermost. A driver that is in use gets the wrapper that it has. After an error the driver is
// nil. Wrap is safe for concurrent use.
func Wrap(d cu.Driver) (cu.Driver, error) {
	var err error
	for _, environment := range [...]func(cu.Driver) (cu.Driver, error){fault.Environment, trace.Environment, check.Environment} {
		if d, err = environment(d); err != nil {
			return nil, err
		}
	}
	return d, nil
}
