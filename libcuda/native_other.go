//go:build !linux || (!amd64 && !arm64) || android || faketime || ferrysoft

package libcuda

import (
	"errors"

	"github.com/ferrygpu/ferry/cu"
)

// Open fails on this platform before any of these is called.

var errPlatform = errors.New("BUG: libcuda called on a platform without it")

func (*call) make() cu.Result { panic(errPlatform) }

func (*shortCall) make() cu.Result { panic(errPlatform) }

func (*crossing) make() cu.Result { panic(errPlatform) }

func syscallN(uintptr, ...uintptr) uintptr { panic(errPlatform) }

func closedOnExec(fd int32, err error) (int32, error) { return fd, err }

func newCallback(func(uintptr)) uintptr { panic(errPlatform) }

func threadID() int { panic(errPlatform) }

func mappedFile(string, uintptr) string { return "" }

// Nothing does nothing, because there are no calls to C on this platform.
func Nothing() {}
