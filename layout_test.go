package ferry

import (
	"reflect"
	"testing"
)

// cacheLine is the unit in which processors move memory between their caches.
const cacheLine = 64

// TestLayout checks that what every operation reads of a buffer, a stream and an event
// is in one line of the cache.
func TestLayout(t *testing.T) {
	for _, c := range []struct {
		value any // a pointer to a new value
		hot   []string
	}{
		{new(allocation), []string{"g", "kind", "oneGPU", "readOnly"}},
		{new(streamState), []string{"g", "handle", "capture"}},
		{new(Event), []string{"g", "handle", "state"}},
	} {
		v := reflect.ValueOf(c.value)
		if v.Pointer()%cacheLine != 0 {
			t.Errorf("a %T begins at %#x, which is not the start of a line", c.value, v.Pointer())
		}
		for _, name := range c.hot {
			f, ok := v.Type().Elem().FieldByName(name)
			if !ok {
				t.Errorf("%T has no field %s", c.value, name)
			} else if end := f.Offset + f.Type.Size(); end > cacheLine {
				t.Errorf("%T.%s ends at byte %d, want at most %d", c.value, name, end, cacheLine)
			}
		}
	}
	for _, embedded := range []struct {
		outer any
		name  string
		hot   []string
	}{
		{allocation{}, "Tracker", []string{"Lifetime", "first"}},
		{streamState{}, "Stream", []string{"word", "done", "recorder"}},
	} {
		outer := reflect.TypeOf(embedded.outer)
		f, _ := outer.FieldByName(embedded.name)
		for _, name := range embedded.hot {
			g, ok := f.Type.FieldByName(name)
			if !ok {
				t.Errorf("%v.%s has no field %s", outer, embedded.name, name)
			} else if end := f.Offset + g.Offset + g.Type.Size(); end > cacheLine {
				t.Errorf("%v.%s.%s ends at byte %d, want at most %d", outer, embedded.name, name, end, cacheLine)
			}
		}
	}
}
