package runner

import (
	"errors"
	"fmt"
	"strings"
)

// parseStruct parses the fields of a structure, TYPE:VALUE,... A field without a type has
// the type of the field before it. Each field is aligned to its size and the structure to
// its largest field, as in C.
func (a *Arg) parseStruct(data string) error {
	if data == "" {
		return errors.New("has no value after \"=\"; write struct=TYPE:VALUE,TYPE:VALUE")
	}
	a.Type, a.structure = B8, true
	var t Type
	largest, field := 0, 0
	for word := range strings.SplitSeq(data, ",") {
		field++
		name, value, typed := strings.Cut(word, ":")
		var err error
		switch {
		case typed:
			t, err = parseType(strings.TrimSpace(name))
		case field == 1:
			err = errors.New("has no type: write TYPE:VALUE")
		default:
			value = word
		}
		var element uint64
		if err == nil {
			element, err = parseValue(t, strings.TrimSpace(value))
		}
		if err != nil {
			return fmt.Errorf("field %d %w", field, err)
		}
		a.appendField(t, element)
		largest = max(largest, t.Size())
	}
	a.pad(largest)
	a.count = len(a.values)
	return nil
}

// appendField appends a field of a structure, aligned to its size.
func (a *Arg) appendField(t Type, element uint64) {
	a.pad(t.Size())
	at := len(a.values)
	a.values = append(a.values, make([]byte, t.Size())...)
	PutElement(a.values[at:], t, 0, element)
}

// pad appends zeros until the length is a multiple of align.
func (a *Arg) pad(align int) {
	for len(a.values)%align != 0 {
		a.values = append(a.values, 0)
	}
}
