package cu_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestLoss: the first sticky error is reported as it is, later ones in one line. Other errors
// are never changed.
func TestLoss(t *testing.T) {
	made := &cu.Lost{Result: cu.ErrorLaunchFailed} // by a test of a program
	if text := made.Error(); text != "CUDA_ERROR_LAUNCH_FAILED: an earlier fault lost the context: the process must restart" {
		t.Errorf("a Lost without a Loss: %s", text)
	}
	var l cu.Loss
	l.Blame("nobody")
	if err := l.Report(cu.ErrorOutOfMemory); err != error(cu.ErrorOutOfMemory) || l.Report(nil) != nil || l.Lost() != nil {
		t.Fatalf("an error that is not sticky: %v, lost %v", err, l.Lost())
	}
	first := &cu.Fault{Result: cu.ErrorMisalignedAddress, Kernel: "k", Line: 7, Near: "a long text"}
	if err := l.Report(first); err != error(first) {
		t.Errorf("the first report is %v", err)
	}
	for _, c := range []struct {
		code cu.Result
		want string
	}{
		{cu.ErrorMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS: an earlier fault lost the context (kernel k, PTX line 7): the process must restart"},
		{cu.ErrorLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED: an earlier fault lost the context (kernel k, PTX line 7): the process must restart"},
	} {
		err := l.Report(c.code)
		if err == nil || err.Error() != c.want || !errors.Is(err, c.code) || !errors.Is(err, cu.ErrorMisalignedAddress) {
			t.Errorf("%v: later %v, want %s", c.code, err, c.want)
		}
		if text := fmt.Sprintf("%+v", err); text != c.want+"\nfirst: "+first.Error() {
			t.Errorf("%%+v is %s", text)
		}
	}
	if f, ok := errors.AsType[*cu.Fault](error(l.Lost())); !ok || f != first {
		t.Errorf("the fault is %v", f)
	}
}

// TestLossBlame: where the driver does not know the kernel, the text says what was blamed
// first after the report, and how to go on.
func TestLossBlame(t *testing.T) {
	l := cu.Loss{Remedy: "open it again"}
	_ = l.Report(cu.ErrorLaunchFailed)
	if got, want := l.Report(cu.ErrorLaunchFailed).Error(), "CUDA_ERROR_LAUNCH_FAILED: an earlier fault lost the context: open it again"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := l.Report(cu.ErrorAssert).Error(); !strings.Contains(got, "CUDA_ERROR_ASSERT") || !strings.Contains(got, "(CUDA_ERROR_LAUNCH_FAILED)") {
		t.Errorf("another code: %s", got)
	}
	l.Blame("kernel k")
	l.Blame("kernel other")
	if got := l.Report(cu.ErrorLaunchFailed).Error(); !strings.Contains(got, "(kernel k)") {
		t.Errorf("after the blame: %s", got)
	}
}

// TestLossConcurrent: of many calls at once, one gets the first report.
func TestLossConcurrent(t *testing.T) {
	var l cu.Loss
	var wg sync.WaitGroup
	reports := make([]error, 64)
	for i := range reports {
		wg.Go(func() { reports[i] = l.Report(cu.ErrorLaunchFailed) })
	}
	wg.Wait()
	first := 0
	for _, err := range reports {
		if err == error(cu.ErrorLaunchFailed) {
			first++
		} else if err != error(l.Lost()) {
			t.Errorf("report %v", err)
		}
	}
	if first != 1 {
		t.Errorf("%d first reports", first)
	}
}
