package wrappers

import (
	"reflect"
	"runtime"
	"sync"
	"weak"

	"github.com/ferrygpu/ferry/cu"
)

// Wrapper is a pointer to a driver of type T that wraps another one.
type Wrapper[T any] interface {
	*T
	cu.Driver
	Unwrap() cu.Driver
}

// registry has all wrappers that Of has made and somebody uses. Each key is a weak.Pointer[T],
// with the T of its package.
var registry struct {
	mu  sync.Mutex
	all map[any]struct{}
}

// Of returns the wrapper of d that wrap has made before, or lets wrap make it. It returns d as it
// is if d is nil, or is or wraps such a wrapper. A d whose value Go cannot compare gets a new
// wrapper each time. If wrap fails, Of returns its error.
//
// Of is safe for concurrent use. It calls wrap under the lock of the registry, so that concurrent
// openings of a driver get one wrapper. wrap must make no driver call, and must not call Of.
func Of[T any, W Wrapper[T]](d cu.Driver, wrap func(cu.Driver) (W, error)) (cu.Driver, error) {
	if _, wrapped := cu.As[W](d); d == nil || wrapped {
		return d, nil
	}
	if !reflect.ValueOf(d).Comparable() {
		return result(wrap(d))
	}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if w := find[T, W](d); w != nil {
		return w, nil
	}
	w, err := wrap(d)
	if err == nil {
		add[T](w)
	}
	return result(w, err)
}

// result returns a wrapper as a driver. A driver that is nil stands beside an error.
func result[W cu.Driver](w W, err error) (cu.Driver, error) {
	if err != nil {
		return nil, err
	}
	return w, nil
}

// find returns the wrapper of d that is in use, nil if there is none. The caller holds mu.
func find[T any, W Wrapper[T]](d cu.Driver) W {
	for key := range registry.all {
		if p, ok := key.(weak.Pointer[T]); ok {
			if w := W(p.Value()); w != nil && w.Unwrap() == d {
				return w
			}
		}
	}
	return nil
}

// add adds a wrapper, until nobody uses it any more. The caller holds mu.
func add[T any](w *T) {
	if registry.all == nil {
		registry.all = map[any]struct{}{}
	}
	key := weak.Make(w)
	registry.all[key] = struct{}{}
	runtime.AddCleanup(w, forget, any(key))
}

// forget removes a wrapper that nobody uses any more.
func forget(key any) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	delete(registry.all, key)
}
