package devices

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/printable"
)

// visibleVariable names devices by their numbers. Those behind the first that is not there, or that
// comes twice, are hidden, as NVIDIA's driver does.
const visibleVariable = "CUDA_VISIBLE_DEVICES"

// limit leaves as many devices as the variable shows. All devices of a software machine are alike, so
// their number is enough. It is an error if there is none.
func (n Name) limit() (Name, error) {
	list, set := os.LookupEnv(visibleVariable)
	if !set {
		return n, nil
	}
	if n.Count = shown(list, n.Count); n.Count == 0 {
		return n, fmt.Errorf("%s=%s hides all devices: %w", visibleVariable, printable.Value(list), cu.ErrorNoDevice)
	}
	return n, nil
}

// shown returns how many of count devices a list shows.
func shown(list string, count int) int {
	var seen []int
	for text := range strings.SplitSeq(list, ",") {
		i, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || i < 0 || i >= count || slices.Contains(seen, i) {
			break
		}
		seen = append(seen, i)
	}
	return len(seen)
}
