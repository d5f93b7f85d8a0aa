package sweep

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// refusedOn has, for each scenario that a machine refuses, the machines. The other
// scenarios work on all machines, on another way where the usual one is lacking.
var refusedOn = map[string][]string{
	"register": {"no-mapping", "no-register", "nothing", "gb10", "h200-cc"},
	"managed":  {"no-uva", "no-managed", "no-concurrent-managed", "nothing", "wsl"},
	"graph":    {"cuda-11.3", "nothing"},

	"external work": {"cuda-11.3", "nothing"},
	"values":        {"cuda-11.3", "nothing"},

	"graph update": {"cuda-11.3", "cuda-11.8", "nothing"},
	"advice":       {"no-uva", "no-managed", "nothing"},
	"memory pool":  {"no-pools", "nothing"},

	"virtual memory":      {"no-uva", "nothing"},
	"shared memory":       {"no-uva", "nothing"},
	"default memory pool": {"no-pools", "nothing"},
	"managed global":      {"no-uva", "no-managed", "nothing"},
	"attach":              {"no-uva", "no-managed", "nothing"},
	"wraps":               {"no-uva", "no-managed", "nothing"},
}

// TestMachines runs each scenario on machines that lack a capability and on older drivers.
// It ends with right data, or with an error that names what is lacking, and leaves nothing.
// It tries a third of those that a machine refuses, and a third of the others.
func TestMachines(t *testing.T) {
	for _, m := range gputest.Machines() {
		refuses := func(s Scenario) bool { return slices.Contains(refusedOn[s.Name], m.Name) }
		for _, s := range sample.OfEach(t, Scenarios, func(s Scenario) string { return fmt.Sprint(refuses(s)) }, 3) {
			t.Run(m.Name+"/"+s.Name, func(t *testing.T) {
				soft, err := softgpu.Open(softgpu.Options{Profile: m.Profile(t)})
				if err != nil {
					t.Fatal(err)
				}
				d := fault.Wrap(soft, fault.Options{})
				err = run(s, d)
				switch refused := refuses(s); {
				case refused && !m.Explains(err):
					t.Errorf("got error %v, want one that names what the machine lacks", err)
				case !refused && err != nil:
					t.Error(err)
				case refused && strings.Contains(err.Error(), "wrong data"):
					t.Error(err)
				}
				if live := left(d); len(live) > 0 {
					t.Errorf("left %v", live)
				}
			})
		}
	}
}
