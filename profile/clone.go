package profile

import (
	"maps"
	"reflect"
	"slices"
)

// clone returns a copy of p that shares no memory that can change with it.
func (p *Profile) clone() *Profile {
	c := *p
	unshare(reflect.ValueOf(&c).Elem())
	return &c
}

// unshare gives the value v its own maps and slices. Their elements hold no
// others: TestNamedIsOwn would find one.
func unshare(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *map[string]Source:
		*x = maps.Clone(*x)
	case *map[string]Number:
		*x = maps.Clone(*x)
	case *[]Point:
		*x = slices.Clone(*x)
	case *[]string:
		*x = slices.Clone(*x)
	default:
		for i := 0; v.Kind() == reflect.Struct && i < v.NumField(); i++ {
			unshare(v.Field(i))
		}
	}
}
