package reflectvaluecompare

import "reflect"

func same(a, b any) bool {
	return reflect.ValueOf(a) == reflect.ValueOf(b) // want "avoid using == with reflect.Value"
}
