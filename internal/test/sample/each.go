package sample

import "testing"

// OfEach returns some of the items, in their order: of each kind of items one, and one more for
// every part that there are. It returns all of them if Full.
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
