package bench

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/ferrygpu/ferry"
)

// TestCalls makes every call. With FERRY_CALLS_JSON it writes the figures to that file, one
// per line. They are meaningful on hardware only.
func TestCalls(t *testing.T) {
	g, err := ferry.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	costs, err := Calls(g)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range costs {
		if c.NS <= 0 || seen[c.What] {
			t.Errorf("%+v: not positive, or measured twice", c)
		}
		seen[c.What] = true
	}
	if len(seen) < 18 {
		t.Errorf("%d calls measured", len(seen))
	}
	if path := os.Getenv("FERRY_CALLS_JSON"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, c := range costs {
			if err := json.NewEncoder(f).Encode(c); err != nil {
				t.Fatal(err)
			}
		}
	}
}
