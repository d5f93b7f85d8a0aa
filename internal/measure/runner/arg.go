package runner

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"strconv"
	"strings"
)

// Direction is the use of an argument.
type Direction uint8

const (
	Scalar Direction = iota // a value, passed as it is
	In                      // a buffer that the kernel reads
	Out                     // a buffer of zeros that is shown afterwards
	InOut                   // a buffer with data that is also shown afterwards
)

// String returns the word before the colon. It is empty for a scalar.
func (d Direction) String() string { return [...]string{"", "in", "out", "inout"}[d] }

// origin is the origin of an argument's bytes.
type origin uint8

const (
	fromValues origin = iota
	fromFile
	fromZeros
	fromIota
	fromRandom
	fromWhole
)

// Arg is one argument of a kernel. [ParseArg] creates it.
type Arg struct {
	Text      string // as written
	Direction Direction
	Type      Type

	from      origin
	count     int    // elements; 0 for a file, whose size is not known yet
	values    []byte // fromValues: the elements
	path      string // fromFile
	limits    *limits
	structure bool // a scalar whose values are the bytes of a structure
}

// ParseArg parses an argument. It opens no file.
func ParseArg(text string) (Arg, error) {
	a, err := parseArg(text)
	if err != nil {
		return Arg{}, fmt.Errorf("argument %q: %w", text, err)
	}
	return a, nil
}

func parseArg(text string) (Arg, error) {
	head, data, ok := strings.Cut(text, "=")
	if !ok {
		return Arg{}, errors.New("has no \"=\"; write TYPE=VALUE, or in:TYPE=DATA, out:TYPE=[N], inout:TYPE=DATA")
	}
	a := Arg{Text: text}
	if head == "struct" {
		return a, a.parseStruct(data)
	}
	name := head
	if word, rest, ok := strings.Cut(head, ":"); ok {
		direction, err := parseDirection(word)
		if err != nil {
			return Arg{}, err
		}
		a.Direction, name = direction, rest
	}
	var err error
	if a.Type, err = parseType(name); err != nil {
		return Arg{}, err
	}
	if a.Direction == Scalar {
		return a, a.parseScalar(data)
	}
	return a, a.parseData(data)
}

func parseDirection(word string) (Direction, error) {
	for _, d := range []Direction{In, Out, InOut} {
		if word == d.String() {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%q is not a direction (in, out, inout)", word)
}

func (a *Arg) parseScalar(data string) error {
	if data != "" && strings.ContainsAny(data, ",[@") {
		return fmt.Errorf("a scalar is one value; a buffer is written in:%s=%s", a.Type, data)
	}
	return a.parseValues(data)
}

func (a *Arg) parseValues(data string) error {
	if data == "" {
		return errors.New("has no value after \"=\"")
	}
	size := a.Type.Size()
	a.count = strings.Count(data, ",") + 1
	a.values = make([]byte, a.count*size)
	i := 0
	for word := range strings.SplitSeq(data, ",") {
		element, err := parseValue(a.Type, strings.TrimSpace(word))
		if err != nil && a.count > 1 {
			return fmt.Errorf("value %d of %d %w", i+1, a.count, err)
		}
		if err != nil {
			return err
		}
		PutElement(a.values, a.Type, i, element)
		i++
	}
	return nil
}

func (a *Arg) parseData(data string) error {
	if path, ok := strings.CutPrefix(data, "@"); ok {
		a.from, a.path = fromFile, path
		if path == "" {
			return errors.New("has no file name after \"@\"")
		}
		return a.checkOut()
	}
	word, rest, ok := strings.Cut(data, "[")
	if !ok {
		if data == "iota" || data == "random" || data == "whole" {
			return fmt.Errorf("has no number of elements: write %s[N]", data)
		}
		if a.Direction == Out {
			return a.checkOut()
		}
		return a.parseValues(data)
	}
	switch word {
	case "":
		a.from = fromZeros
	case "iota":
		a.from = fromIota
	case "random":
		a.from = fromRandom
	case "whole":
		a.from = fromWhole
	default:
		return fmt.Errorf("%q is not a kind of data (iota[N], random[N], whole[N]:LOW..HIGH, [N] for zeros, @FILE, or values)", word)
	}
	if err := a.parseCount(rest); err != nil {
		return err
	}
	return a.checkOut()
}

// checkOut refuses data for an out buffer, which starts as zeros.
func (a *Arg) checkOut() error {
	if a.Direction == Out && a.from != fromZeros {
		return errors.New("an out buffer starts as zeros: write [N] for its length, or inout: to give it data")
	}
	return nil
}

func (a *Arg) parseCount(rest string) error {
	digits, tail, ok := strings.Cut(rest, "]")
	span, ranged := strings.CutPrefix(tail, ":")
	if !ok || tail != "" && !ranged {
		return fmt.Errorf("%q does not end with \"]\"", "["+rest)
	}
	n, err := parseProduct(digits)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && n > uint64(math.MaxInt/a.Type.Size()):
		return fmt.Errorf("%s elements of %s are more than this process can address", digits, a.Type)
	case err != nil:
		return fmt.Errorf("%q is not a number of elements", digits)
	case n == 0:
		return errors.New("a buffer has at least 1 element, not 0")
	}
	a.count = int(n)
	if ranged || a.from == fromWhole {
		return a.parseLimits(span)
	}
	if a.from == fromIota && a.Type == F16 && a.count > 65505 {
		return fmt.Errorf("the largest f16 is 65504, so iota has at most 65505 elements, not %d", a.count)
	}
	return nil
}

// parseProduct parses a number of elements: N, or a product such as 480*640.
func parseProduct(text string) (uint64, error) {
	product := uint64(1)
	for word := range strings.SplitSeq(text, "*") {
		n, err := strconv.ParseUint(word, 10, 63)
		if err != nil {
			return 0, err
		}
		high, low := bits.Mul64(product, n)
		if high != 0 || low > math.MaxInt64 {
			return 0, strconv.ErrRange
		}
		product = low
	}
	return product, nil
}

// Value returns the value of a scalar for Launch. Values of 1, 2, 4 and 8 bytes, and
// structures, are arrays of bytes: Launch accepts an array for a parameter of any type
// with that size. [typeWarnings] reports other types.
func (a *Arg) Value() any {
	if a.structure {
		v := reflect.New(reflect.ArrayOf(len(a.values), reflect.TypeFor[byte]())).Elem()
		reflect.Copy(v, reflect.ValueOf(a.values))
		return v.Interface()
	}
	switch a.Type.Size() {
	case 1:
		return [1]byte(a.values)
	case 2:
		return [2]byte(a.values)
	case 4:
		return [4]byte(a.values)
	}
	return [8]byte(a.values)
}
