package sortslice

import "sort"

func order(a [3]int) {
	sort.Slice(a, func(i, j int) bool { return a[i] < a[j] }) // want "sort.Slice's argument must be a slice"
}
