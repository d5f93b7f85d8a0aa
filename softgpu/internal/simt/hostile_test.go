package simt

import (
	"testing"

	"github.com/ferrygpu/ferry/internal/test/hostile"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/ptx"
)

// TestHostile decodes modules whose calls and branches are made to cost much.
func TestHostile(t *testing.T) {
	sample.SkipRace(t)
	all := hostile.PTX()
	for _, name := range []string{
		"a chain of calls", "a chain of doubled calls",
		"kernels and a recursion", "kernels and a pointer", "kernels and a refusal", "kernels and pointers",
		"many users of a table", "many users of many labels", "live registers and blocks", "reversed live blocks", "reversed blocks, often",
	} {
		if len(all[name]) > hostile.Bytes {
			t.Errorf("%s: %d bytes", name, len(all[name]))
		}
		m, err := ptx.Parse("", all[name])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		hostile.Check(t, name, func() {
			if _, err := Decode(m); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
