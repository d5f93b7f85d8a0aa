package devices

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/hostile"
)

// FuzzDeviceName parses names of devices, as FERRY_DEVICE has them.
func FuzzDeviceName(f *testing.F) {
	for _, seed := range []string{"", "cuda", "cuda:1", "cuda:-1", "cuda:65536", "soft", "soft:h200", "soft:h200*2", "soft:*2", "soft:mine.json*3", "soft*9", "soft:", "hard", "cuda:GPU-8932f937", "cuda:GPU-", "cuda:0000:1b:00.0", "cuda:1b:0", "soft:GPU-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		hostile.Check(t, "name", func() {
			n, err := Parse(name)
			switch {
			case err != nil:
			case n.Soft && (n.Count < 1 || !strings.HasPrefix(name, "soft")), !n.Soft && (n.Ordinal < -1 || n.Ordinal >= 0 && n.ID.Named()):
				t.Errorf("%q is %+v", name, n)
			}
		})
	})
}
