package pipeline

import (
	"io"
	"strings"
	"testing"
)

// panicking is a file of the program whose Seek panics.
type panicking struct{ io.Seeker }

func (panicking) Seek(int64, int) (int64, error) { panic("planted") }

// TestTakePanics: a Seek of the second file that panics leaves the offset of the first where it was.
func TestTakePanics(t *testing.T) {
	first := strings.NewReader("0123456789")
	j := &job{total: 4, in: []endpoint{{seek: first, readAt: first, size: 1, last: 10}, {seek: panicking{}, size: 1}}}
	func() {
		defer func() {
			if got := recover(); got != "planted" {
				t.Errorf("recovered %v, want the panic of Seek", got)
			}
		}()
		_, _ = j.takeAll()
	}()
	if at, err := first.Seek(0, io.SeekCurrent); err != nil || at != 0 {
		t.Errorf("the first file is at %d, want 0 (%v)", at, err)
	}
}
