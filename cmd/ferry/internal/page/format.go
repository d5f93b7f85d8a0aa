package page

import (
	"fmt"
	"math"
	"strconv"
)

// name returns the unit's name in the head of a column.
func (u Unit) name() string {
	switch u {
	case Time, Seconds:
		return "us"
	case Rate:
		return "GB/s"
	case Ratio:
		return "ratio"
	}
	return string(u)
}

// cell formats a number for a column whose head has the unit.
func (u Unit) cell(v float64) string {
	if u == Time || u == Seconds {
		return digits(v / 1e3)
	}
	return digits(v)
}

// text formats a number with its unit.
func (u Unit) text(v float64) string {
	switch u {
	case Bytes:
		return sizeText(v)
	case Time, Seconds:
		return timeText(v)
	case Rate:
		return digits(v) + " GB/s"
	case Count:
		return short(v)
	}
	return digits(v)
}

// digits formats a number with three significant digits, and whole from 100 on.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 0.001:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a < 0.0995:
		return fmt.Sprintf("%.4f", v)
	case a < 9.995:
		return fmt.Sprintf("%.2f", v)
	case a < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// sizeText formats a number of bytes.
func sizeText(v float64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := math.Exp2(float64(30 - 10*i)); v >= size {
			return short(v/size) + " " + unit
		}
	}
	return short(v) + " bytes"
}

// short formats a number with three significant digits and no zeros at the end.
func short(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// timeText formats nanoseconds.
func timeText(ns float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}} {
		if math.Abs(ns) >= 0.9995*unit.size {
			return digits(ns/unit.size) + " " + unit.name
		}
	}
	return fmt.Sprintf("%.0f ns", ns)
}
