package profile

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Check returns an error for each number of p that [Parse] would refuse, as a [FieldError]
// without a position, all of them joined. It is for profiles that a program makes or changes.
// In a profile that Check accepts, every use of a number ends.
func (p *Profile) Check() error {
	if p == nil {
		return errors.New("profile: there is none")
	}
	c := new(checker)
	c.walk(reflect.ValueOf(p).Elem(), "")
	if err := c.err(); err != nil {
		return fmt.Errorf("profile %s: %w", p.Name, err)
	}
	return nil
}

// checker collects the errors in the numbers of a profile.
type checker struct{ problems }

// walk checks the numbers and curves in v, which is at path.
func (c *checker) walk(v reflect.Value, path string) {
	switch x := v.Interface().(type) {
	case Number:
		if text := problem(path, x.Value); text != "" {
			c.add(&FieldError{Path: path + ".value", Problem: text})
		}
		return
	case Curve:
		if at, text := x.problem(); text != "" {
			c.add(&FieldError{Path: fmt.Sprintf("%s.points[%d]", path, at), Problem: text})
		}
		return
	case map[string]Number:
		for _, name := range slices.Sorted(maps.Keys(x)) {
			c.walk(reflect.ValueOf(x[name]), join(path, name))
		}
		return
	}
	for i := 0; v.Kind() == reflect.Struct && i < v.NumField(); i++ {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if option == "" || !v.Field(i).IsZero() { // what may be left out is left out if it is zero
			c.walk(v.Field(i), join(path, name))
		}
	}
}
