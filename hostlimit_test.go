package ferry_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// TestHostMemoryBounds: the software GPU refuses page-locked memory that no machine has, and
// PredictPin says so before.
func TestHostMemoryBounds(t *testing.T) {
	for device, want := range map[string]string{"soft:h200": "h200 has 2", "soft:fermi-c2050": "fermi-c2050 has 24"} {
		g, err := ferry.Open(device)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []*ferry.HostOptions{nil, {WriteCombined: true}} {
			check := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, cu.ErrorOutOfMemory) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "of host memory, of which") {
					t.Errorf("%s, %s, %+v: got %v, want %q", device, what, o, err, want)
				}
			}
			_, err := ferry.AllocHost[byte](g, 4<<40, o)
			check("AllocHost", err)
			if p, err := ferry.PredictPin(g, 4<<40, o); err != nil {
				t.Errorf("%s: %v", device, err)
			} else {
				check("PredictPin", p.Err)
			}
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}
