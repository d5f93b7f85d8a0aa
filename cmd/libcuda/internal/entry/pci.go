package entry

import (
	"strconv"
	"strings"
)

// samePCI reports whether two texts name one address of the bus: "0000:1a:00.0", or without the
// domain or the function.
func samePCI(a, b string) bool {
	x, ok1 := pciAddress(a)
	y, ok2 := pciAddress(b)
	return ok1 && ok2 && x == y
}

// pciAddress returns domain, bus, device and function.
func pciAddress(text string) (n [4]uint64, ok bool) {
	text, function, _ := strings.Cut(text, ".")
	parts := append(strings.Split(text, ":"), function)
	if len(parts) == 3 {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != len(n) {
		return n, false
	}
	for i, p := range parts {
		if p == "" && i == len(n)-1 {
			continue
		}
		var err error
		if n[i], err = strconv.ParseUint(p, 16, 32); err != nil {
			return n, false
		}
	}
	return n, true
}
