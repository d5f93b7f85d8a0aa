package fault

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/wrappers"
)

// Variable is the name of the environment variable that lets calls of a program fail.
const Variable = "FERRY_FAULT"

// defaultEvery is how many calls there are for one that fails by FERRY_FAULT=seed:N.
const defaultEvery = 64

// Environment returns d as it is, unless FERRY_FAULT is set. Then it wraps d, so that its
// calls fail as the variable says. The same driver gets the same wrapper while that is in use.
// A new wrapper counts calls from 1 and knows of no sticky error. Package ferry calls Environment
// when it opens a device.
func Environment(d cu.Driver) (cu.Driver, error) {
	text := os.Getenv(Variable)
	if text == "" {
		return d, nil
	}
	return wrappers.Of(d, func(d cu.Driver) (*Driver, error) {
		o, err := Parse(text)
		if err != nil {
			return nil, err
		}
		return Wrap(d, o), nil
	})
}

// Parse reads the text of FERRY_FAULT: seed:N, or CALL:N:CODE where CALL is a C function
// without a version, N counts its calls from 1, and CODE is a name such as
// CUDA_ERROR_OUT_OF_MEMORY. Several CALL:N:CODE have commas between them.
func Parse(text string) (o Options, err error) {
	wrong := func(why string) (Options, error) {
		return Options{}, fmt.Errorf("%s is %s: %s; write seed:N, or CALL:N:CODE such as cuMemAlloc:3:CUDA_ERROR_OUT_OF_MEMORY: %w",
			Variable, printable.Value(text), why, cu.ErrorInvalidValue)
	}
	if seed, ok := strings.CutPrefix(text, "seed:"); ok {
		o.Every = defaultEvery
		if o.Seed, err = strconv.ParseUint(seed, 10, 64); err != nil {
			return wrong(fmt.Sprintf("%s is no number", printable.Value(seed)))
		}
		return o, nil
	}
	for i, part := range strings.Split(text, ",") {
		f, why := parseFailure(part)
		switch {
		case why != "":
			return wrong(why)
		case i == 0:
			o.Call, o.Nth, o.Mode, o.Code = f.Call, f.Nth, f.Mode, f.Code
		default:
			o.More = append(o.More, f)
		}
	}
	return o, nil
}

// parseFailure reads CALL:N:CODE. why says what is wrong, "" if nothing is.
func parseFailure(text string) (f Failure, why string) {
	words := strings.Split(text, ":")
	if len(words) != 3 {
		return f, fmt.Sprintf("it has %d parts", len(words))
	}
	if f.Call = words[0]; !isCall(f.Call) {
		return f, fmt.Sprintf("there is no call %s", printable.Value(f.Call))
	}
	n, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil || n == 0 {
		return f, fmt.Sprintf("%s is no number from 1", printable.Value(words[1]))
	}
	code, ok := cu.ResultNamed(words[2])
	if !ok || code == 0 {
		return f, fmt.Sprintf("there is no error %s", printable.Value(words[2]))
	}
	if f.Nth, f.Code = n, code; code.Sticky() {
		f.Mode = Sticky
	}
	return f, ""
}

// isCall reports whether a driver makes calls of a C function.
func isCall(name string) bool { return slices.Contains(strings.Fields(calls), name) }
