package entry

import (
	"errors"
	"fmt"
	"os"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/devices"
	"github.com/ferrygpu/ferry/internal/printable"
)

// open opens the driver that the library is, as the environment asks for it. C gets the code of
// an error alone, so open says what is wrong. end is called when the process ends: recordings are
// complete then.
func open() (d cu.Driver, end func(), err error) {
	takeEnvironment()
	d, err = devices.Environment()
	if err != nil {
		fmt.Fprintf(os.Stderr, "ferry: %s\n", printable.Line(err.Error()))
		if _, coded := errors.AsType[cu.Result](err); !coded {
			err = cu.ErrorNotInitialized
		}
	}
	return d, devices.End, err
}
