package profile

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/hostile"
)

// TestHostile parses profiles that are made to cost much.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a hundred inputs of 1 MB")
	}
	whole, err := Text("h200")
	if err != nil {
		t.Fatal(err)
	}
	all := hostile.JSON(`{"schema":"`+Schema+`"`, "attributes")
	for name, text := range hostile.JSON(`{"points":1`, "points") { // inside of a valid profile
		all["curve of "+name] = strings.Replace(string(whole), `"points": [`, `"points": [`+text+",", 1)
		all["end of "+name] = strings.TrimRight(string(whole), "}\n") + `,"x":` + text + "}"
	}
	for name, text := range all {
		hostile.Check(t, name, func() {
			if _, err := Parse([]byte(text)); err == nil {
				t.Errorf("%s: no error", name)
			}
		})
	}
}
