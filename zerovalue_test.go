package ferry_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// candidates are values of a type for arguments: the zero value, a new one and, if the fixture
// has one, one that is good.
func (x *badInput) candidates(t reflect.Type) []reflect.Value {
	all := []reflect.Value{reflect.Zero(t)}
	if t.Kind() == reflect.Pointer {
		all = append(all, reflect.New(t.Elem()))
	}
	for _, good := range []any{x.g, x.stream, x.module, x.graph, x.pinned, x.pool, x.event, x.add, x.device, x.host, x.floats,
		x.other, x.far, context.Background(), func(*ferry.Stream) error { return nil }, func() {}, ferry.Grid(1, 1), cu.CPUDevice, "name", 1, -1, uint(1),
		new(ferry.Batch), new(ferry.Device[byte]), new(ferry.Host[byte]), new(ferry.Managed[byte]), new(ferry.PageableSlice[byte]), ferry.Rect[byte]{}} {
		if v := reflect.ValueOf(good); v.Type().AssignableTo(t) {
			all = append(all, v)
		}
	}
	return all
}

// TestZeroArguments: no method panics, whatever mixture of nil, new and good values its receiver
// and its arguments are. A call with a zero value returns an error if it can.
func TestZeroArguments(t *testing.T) {
	x := newBadInput(t)
	calls := 0
	for _, r := range receivers {
		for m := range reflect.TypeOf(r).Methods() {
			name := typeOf(r) + "." + m.Name
			if m.Name == "Close" || m.Name == "SaveCPU" || mayPanic(name) {
				continue
			}
			for _, v := range x.candidates(reflect.TypeOf(r)) {
				if v.IsNil() && name == "LaunchConfig.String" { // a method of values
					continue
				}
				f := v.MethodByName(m.Name)
				for args := range x.mixtures(f.Type()) {
					calls++
					if _, panicked := call(f, args); panicked != nil {
						t.Errorf("%s of %v with %v panics: %v", name, v, args, panicked)
					}
				}
			}
		}
	}
	if calls < 1000 {
		t.Errorf("%d calls: the test does not test what it should", calls)
	}
	_ = x.g.Wait(context.Background())
}

// mixtures yields lists of arguments. In each all but one are zero, or all but one are good.
func (x *badInput) mixtures(f reflect.Type) func(yield func([]reflect.Value) bool) {
	return func(yield func([]reflect.Value) bool) {
		choices := make([][]reflect.Value, f.NumIn())
		zero, good := make([]reflect.Value, f.NumIn()), make([]reflect.Value, f.NumIn())
		for i := range choices {
			choices[i] = x.candidates(f.In(i))
			zero[i], good[i] = choices[i][0], choices[i][len(choices[i])-1]
		}
		if !yield(zero) || !yield(good) {
			return
		}
		for i := range choices {
			for _, c := range choices[i] {
				for _, rest := range [][]reflect.Value{zero, good} {
					args := append([]reflect.Value(nil), rest...)
					args[i] = c
					if !yield(args) {
						return
					}
				}
			}
		}
	}
}
