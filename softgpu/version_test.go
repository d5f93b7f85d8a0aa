package softgpu

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// introduced matches the line in cu/driver.go that has the version of a call, and the
// method below it.
var introduced = regexp.MustCompile(`//cu:(?:call|hand) (\w+) (\d+).*\n\t(\w+)\(`)

// callZero calls a method with zero arguments and returns its error.
func callZero(d *Driver, method string) error {
	f := reflect.ValueOf(d).MethodByName(method)
	var args []reflect.Value
	for i := range f.Type().NumIn() {
		args = append(args, reflect.Zero(f.Type().In(i)))
	}
	results := f.Call(args)
	err, _ := results[len(results)-1].Interface().(error)
	return err
}

// TestCallsOfOldDrivers compares each call newer than CUDA 11.3, the oldest driver that
// Ferry works with, with the table of calls: an older driver lacks it.
func TestCallsOfOldDrivers(t *testing.T) {
	sample.SkipRace(t)
	if runtime.GOARCH == "wasm" {
		t.Skip("reflect stores the code address of a method as a pointer: on wasm it can lie in the heap, which ends the program")
	}
	text, err := os.ReadFile("../cu/driver.go")
	if err != nil {
		t.Fatal(err)
	}
	newer := 0
	for _, m := range introduced.FindAllStringSubmatch(string(text), -1) {
		version, _ := strconv.Atoi(m[2])
		symbol := strings.TrimSuffix(m[1], "_v2")
		symbol = strings.TrimSuffix(symbol, "WithFlags")
		for _, have := range []int{11030, version - 10, version} {
			if have < 11030 {
				continue
			}
			p := *named(t, "h200")
			p.Driver.Value = float64(have)
			r := newRig(t, Options{Profile: &p})
			err := callZero(r.Driver, m[3])
			missing, lacks := errors.AsType[*cu.NotSupportedError](err)
			switch {
			case lacks != (have < version):
				t.Errorf("%s with a driver of CUDA %s: error %v; CUDA %s introduced it", m[3], versionText(have), err, versionText(version))
			case lacks && (!strings.HasPrefix(missing.Call, symbol) || !strings.Contains(missing.Needs, " "+versionText(version)+" ")):
				t.Errorf("%s: the error is %v", m[3], err)
			}
			if lacks {
				newer++
			}
		}
	}
	if newer < 10 {
		t.Errorf("%d refusals, want 10 or more", newer)
	}
}
