package sample

import "testing"

// OfEach returns a random sample of the items, in their order. From each kind it takes one item
// of every part, rounded up, so at least one. If Full, it returns all items. part is at least 1.
func OfEach[T any](t testing.TB, items []T, kind func(T) string, part int) []T {
	t.Helper()
	if Full() {
		return items
	}
	groups := map[string][]int{}
	for i, item := range items {
		groups[kind(item)] = append(groups[kind(item)], i)
	}
	chosen := make([]bool, len(items))
	r := Rand(t)
	for _, item := range items { // in the order of the items, so that the seed decides
		k := kind(item)
		group := groups[k]
		if len(group) == 0 {
			continue
		}
		for _, at := range r.Perm(len(group))[:(len(group)+part-1)/part] {
			chosen[group[at]] = true
		}
		groups[k] = nil
	}
	var some []T
	for i, item := range items {
		if chosen[i] {
			some = append(some, item)
		}
	}
	return some
}
