package cutest_test

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/cutest"
)

// The rules of one group, as a table of coverage lists them.
func ExampleCases() {
	for _, k := range cutest.Cases() {
		if strings.HasPrefix(k.ID, "copy3d/") {
			fmt.Printf("%s: %s\n", k.ID, k.Rule)
		}
	}
	// Output:
	// copy3d/boxes: a 3D copy moves exactly its box into, within and out of the device
	// copy3d/boxes-async: an asynchronous 3D copy moves exactly its box
	// copy3d/misuse: a box wider than its pitch or higher than its layers is refused
	// copy3d/nothing: a box without extent succeeds and does nothing
}
