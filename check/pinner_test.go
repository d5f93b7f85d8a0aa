package check

import (
	"reflect"
	"runtime"
	"testing"
)

// TestPinnerLayouts: a Pinner of another version of Go keeps nothing that this package sees, and
// no memory counts as memory of Go.
func TestPinnerLayouts(t *testing.T) {
	type refs struct{ refs []byte }
	for _, pin := range []any{
		nil, 0, struct{}{}, new(int), new(struct{}), &struct{ refs []byte }{make([]byte, 1)}, &struct{ *refs }{},
		&struct{ p *struct{ refs int } }{&struct{ refs int }{1}}, &struct{ p *struct{ list []byte } }{&struct{ list []byte }{make([]byte, 1)}},
		&struct{ p *int }{new(int)}, &struct{ p any }{1}, &struct{ p func() }{},
	} {
		if n := pointersIn(pin); n != 0 {
			t.Errorf("%v: got %d pointers", reflect.TypeOf(pin), n)
		}
	}
	if n := pointersIn(&struct{ *refs }{&refs{make([]byte, 3)}}); n != 3 {
		t.Errorf("the layout of Go 1.26: got %d pointers, want 3", n)
	}
	if pinnerKeeps(0) || pinnerKeeps(nil) {
		t.Error("what cannot be pinned counts as memory of Go")
	}
	if !pinnerTells() {
		t.Errorf("the Pinner of %s tells nothing: adapt pointersIn", runtime.Version())
	}
}
