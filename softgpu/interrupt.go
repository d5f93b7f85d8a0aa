package softgpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/simt"
)

// LimitVariable of the environment is how long a kernel may run on drivers that
// are opened without a KernelLimit, as "10s" or "1m30s".
const LimitVariable = "FERRY_KERNEL_LIMIT"

// errLimit ends a kernel that ran for too long.
var errLimit = errors.New("time limit of a kernel")

// limit is that of the options, or of the environment.
func (o *Options) limit() (time.Duration, error) {
	if o.KernelLimit < 0 {
		return 0, fmt.Errorf("a kernel limit of %v: it must be positive, or 0 for none", o.KernelLimit)
	}
	text := os.Getenv(LimitVariable)
	if o.KernelLimit > 0 || text == "" {
		return o.KernelLimit, nil
	}
	limit, err := time.ParseDuration(text)
	if err != nil || limit <= 0 {
		return 0, fmt.Errorf("%s=%q: it must be a positive time such as 10s or 1m30s", LimitVariable, text)
	}
	return limit, nil
}

// Interrupt ends the kernels that run, within milliseconds, and all that come
// later. As after any fault the devices are lost: calls fail with a [cu.Fault]
// that wraps ErrorLaunchTimeout and cause, and says where the kernel was. A GPU
// has nothing like it: there one ends the process. Nil stands for
// [context.Canceled]. Only the first interrupt counts.
//
// It is for whoever stops a program or a test, and safe to call at any time. To
// stop only waiting, use the context of the wait.
func (d *Driver) Interrupt(cause error) { d.end(cause) }

// limited is ctx with the time limit of a kernel that starts now.
func (d *Driver) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d.limit, errLimit)
}

// ended is what becomes of a kernel that was stopped: a fault that loses the
// devices, unless its context was destroyed, which nobody is left to hear of.
func (d *Driver) ended(l *launch, s *simt.Stopped, ran time.Duration) error {
	if s.Cause == errDestroyed {
		return s
	}
	f := &cu.Fault{Kernel: l.fn.name}
	if s.Where != nil {
		f = s.Where
	}
	f.Result = cu.ErrorLaunchTimeout
	ran = ran.Round(time.Millisecond)
	if s.Cause == errLimit {
		f.Why = fmt.Sprintf("it was there when it had run for %v, longer than the limit of %v: correct it, launch less, or raise Options.KernelLimit or %s", ran, d.limit, LimitVariable)
		return f
	}
	f.Cause = s.Cause
	f.Why = fmt.Sprintf("it was there when it was interrupted after %v: %v", ran, s.Cause)
	return f
}
