package trace

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// Environment variables that record a program of package ferry: the file, with "%p" for
// the process id, and the largest size of the file in bytes.
const (
	Variable      = "FERRY_TRACE"
	LimitVariable = "FERRY_TRACE_LIMIT"
)

// environment is the recording that the environment asks for, and the drivers that are
// recorded in it.
var environment struct {
	mu       sync.Mutex
	recorder *Recorder
	drivers  map[cu.Driver]*Driver
}

// Environment returns d as it is, unless FERRY_TRACE is set. Then it wraps d, so that its
// calls are recorded. All drivers of a process are in one recording. The same driver gets
// the same wrapper while it has contexts. A driver that is recorded already stays as it
// is. Package ferry calls Environment when it opens a device.
func Environment(d cu.Driver) (cu.Driver, error) {
	path := secureenv.Get(Variable)
	if d == nil || path == "" || recorded(d) {
		return d, nil
	}
	environment.mu.Lock()
	defer environment.mu.Unlock()
	if err := startEnvironment(path); err != nil {
		return nil, err
	}
	if !reflect.TypeOf(d).Comparable() {
		return environment.recorder.Wrap(d), nil
	}
	w := environment.drivers[d]
	if w == nil {
		w = environment.recorder.Wrap(d)
		environment.drivers[d] = w
	}
	return w, nil
}

// startEnvironment starts the recording of the process, once. The caller holds mu.
func startEnvironment(path string) error {
	if environment.recorder != nil {
		return nil
	}
	limit := int64(0)
	if text := os.Getenv(LimitVariable); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 2*headerBytes {
			return refusal.Invalid("%s is %q, must be a number of bytes, at least %d", LimitVariable, text, 2*headerBytes)
		}
		limit = n
	}
	r, err := Start(&Options{Path: path, Limit: limit})
	if err != nil {
		return fmt.Errorf("%s=%s: %w", Variable, path, err)
	}
	environment.recorder, environment.drivers = r, map[cu.Driver]*Driver{}
	return nil
}

// recorded reports whether d or a driver that it wraps is recorded.
func recorded(d cu.Driver) bool {
	_, ok := cu.As[*Driver](d)
	return ok
}

// forget ends the use of a wrapper by later calls of Environment, because the driver has
// no context any more.
func forget(d cu.Driver) {
	environment.mu.Lock()
	defer environment.mu.Unlock()
	if len(environment.drivers) > 0 && reflect.TypeOf(d).Comparable() {
		delete(environment.drivers, d)
	}
}
