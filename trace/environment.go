package trace

import (
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/internal/wrappers"
)

// Environment variables that record a program of package ferry: the file, with "%p" for
// the process id, and the largest size of the file in bytes.
const (
	Variable      = "FERRY_TRACE"
	LimitVariable = "FERRY_TRACE_LIMIT"
)

// environment is the recording that the environment asks for, and the one without a file that
// only Observe asks for.
var environment struct {
	mu       sync.Mutex
	recorder *Recorder
	observed *Recorder
}

// Environment returns d as it is, unless FERRY_TRACE is set or [Observe] has a function. Then it
// wraps d, so that its calls are recorded. All drivers of a process are in one recording. The same
// driver gets the same wrapper while that is in use. A driver that is recorded already stays as it
// is. Package ferry calls Environment when it opens a device.
func Environment(d cu.Driver) (cu.Driver, error) {
	path := secureenv.Get(Variable)
	if path == "" && !process.on() {
		return d, nil
	}
	return wrappers.Of(d, func(d cu.Driver) (*Driver, error) {
		r, err := startEnvironment(path)
		if err != nil {
			return nil, err
		}
		return r.Wrap(d), nil
	})
}

// startEnvironment returns the recording of the process, which it starts once. Without a path it
// has no file.
func startEnvironment(path string) (*Recorder, error) {
	environment.mu.Lock()
	defer environment.mu.Unlock()
	if path == "" {
		if environment.observed == nil {
			environment.observed = newRecorder(&Options{})
			environment.observed.observer = &process
		}
		return environment.observed, nil
	}
	if environment.recorder != nil {
		return environment.recorder, nil
	}
	limit := int64(0)
	if text := os.Getenv(LimitVariable); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 2*headerBytes {
			return nil, refusal.Invalid("%s is %s, must be a number of bytes, at least %d", LimitVariable, printable.Value(text), 2*headerBytes)
		}
		limit = n
	}
	r, err := Start(&Options{Path: path, Limit: limit})
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", Variable, printable.Name(path), err)
	}
	r.observer = &process
	environment.recorder = r
	wrappers.AtEnd(func() { _ = r.Close() }) // an error was said when it happened
	return r, nil
}
