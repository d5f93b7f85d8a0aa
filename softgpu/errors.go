package softgpu

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// refusal is a Result with words: what was asked, and why not.
type refusal struct {
	result    cu.Result
	what, why string
}

func (e *refusal) Error() string {
	return e.what + ": " + e.result.Name() + ": " + e.why
}

func (e *refusal) Unwrap() error { return e.result }

// refuse makes a refusal. why is a format.
func refuse(r cu.Result, what, why string, args ...any) error {
	return &refusal{r, what, fmt.Sprintf(why, args...)}
}

// lacks is the refusal of what the device's attribute says it cannot do.
func (dev *device) lacks(what string, a cu.DeviceAttribute) error {
	return refuse(cu.ErrorNotSupported, what, "device %d (%s) has %v = 0", dev.ordinal, dev.drv.prof.Title, a)
}

// size writes a number of bytes for people.
func size(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n == 1:
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}
