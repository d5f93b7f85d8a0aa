package runner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/internal/inputfile"
)

// parseStruct parses a structure: @FILE for its bytes, or the fields TYPE:VALUE,... A field without a type has
// the type of the field before it. Each field is aligned to its size and the structure to
// its largest field, as in C.
func (a *Arg) parseStruct(data string) error {
	if data == "" {
		return errors.New("has no value after \"=\"; write struct=TYPE:VALUE,TYPE:VALUE")
	}
	a.Type, a.structure = B8, true
	if path, ok := strings.CutPrefix(data, "@"); ok {
		a.from, a.path = fromFile, path
		if path == "" {
			return errors.New("has no file name after \"@\"")
		}
		return nil
	}
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

// maxStructure is the size of all parameters of a kernel, since PTX 8.1.
const maxStructure = 32764

// readStruct reads the bytes of a structure from its file, once.
func (a *Arg) readStruct() error {
	if !a.structure || a.from != fromFile || a.values != nil {
		return nil
	}
	n, err := a.Size()
	if err != nil {
		return err
	}
	if n > maxStructure {
		return fmt.Errorf("argument %q: %s has %d bytes; the parameters of a kernel have at most %d", a.Text, a.path, n, maxStructure)
	}
	if a.values, err = inputfile.Read(a.path, maxStructure); err != nil {
		return fmt.Errorf("argument %q: %w", a.Text, err)
	}
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
