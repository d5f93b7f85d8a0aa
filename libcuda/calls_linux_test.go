//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// callSpec is a cu:call line and the method under it, read without internal/gen.
type callSpec struct {
	symbol   string
	version  int
	args     []string
	byHandle bool
	method   string
	params   []string
	results  []string
}

var specPattern = regexp.MustCompile(`(?m)^\t//cu:call (\w+?)(?:_v\d)? (\d+) \((.*)\)( context=\w+)?\n\t(\w+)\((.*?)\) (?:error|\((.*)\))$`)

// driverSource reads the interfaces with their cu: lines.
func driverSource(t *testing.T) string {
	src, err := os.ReadFile("../cu/driver.go")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the source is not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

func callSpecs(t *testing.T) []callSpec {
	src := driverSource(t)
	var specs []callSpec
	for _, m := range specPattern.FindAllStringSubmatch(src, -1) {
		version, _ := strconv.Atoi(m[2])
		results := names(m[7])
		if len(results) > 0 {
			results = results[:len(results)-1]
		}
		specs = append(specs, callSpec{m[1], version, split(m[3]), m[4] != "", m[5], names(m[6]), results})
	}
	if lines := strings.Count(src, "\n\t//cu:call "); len(specs) != lines || lines < 70 {
		t.Fatalf("found %d of %d cu:call lines", len(specs), lines)
	}
	return specs
}

func split(list string) []string {
	var parts []string
	for p := range strings.SplitSeq(list, ",") {
		if p = strings.TrimSpace(p); p != "" {
			parts = append(parts, p)
		}
	}
	return parts
}

// names returns the names in a Go parameter list.
func names(list string) []string {
	parts := split(list)
	for i, p := range parts {
		parts[i], _, _ = strings.Cut(p, " ")
	}
	return parts
}

// TestEveryHandCallHasATest looks for a call of each method of a cu:hand line in the
// tests on the fake library. TestEveryCall has the methods of the cu:call lines.
func TestEveryHandCallHasATest(t *testing.T) {
	methods := regexp.MustCompile(`\n\t//cu:hand [^\n]*\n\t(\w+)\(`).FindAllStringSubmatch(driverSource(t), -1)
	if len(methods) < 15 {
		t.Errorf("found %d cu:hand lines", len(methods))
	}
	files, err := filepath.Glob("*_linux_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(text)
	}
	for _, m := range methods {
		if !strings.Contains(tests.String(), "."+m[1]+"(") {
			t.Errorf("no test on the fake library calls %s: add one in libcuda/hand_unsafe_linux_test.go", m[1])
		}
	}
}

// TestEveryCall makes each generated call with arguments that differ. It checks what
// arrives in C: the function, its version, the context and every argument in its place.
// Then it checks the results.
func TestEveryCall(t *testing.T) { testEveryCall(t, minByHandle-1) }

// TestEveryCallByHandle does the same with a driver that takes the context from the
// stream or event.
func TestEveryCallByHandle(t *testing.T) { testEveryCall(t, minByHandle) }

func testEveryCall(t *testing.T, version int32) {
	for _, spec := range callSpecs(t) {
		t.Run(spec.method, func(t *testing.T) {
			f, d := newFake(t)
			d.version = version
			method := reflect.ValueOf(d).MethodByName(spec.method)
			if got, want := method.Type().NumIn(), len(spec.params); got != want {
				t.Fatalf("%d parameters, want %d", got, want)
			}
			in := make([]reflect.Value, len(spec.params))
			want := make(map[string]uint64)
			for i, name := range spec.params {
				in[i], want[name] = sample(t, method.Type().In(i), i)
			}
			for i, name := range spec.results {
				want["*"+name] = uint64(0x51+i) << 20
			}
			f.on(spec.symbol, func(args []uintptr) cu.Result {
				for i, name := range spec.args {
					if strings.HasPrefix(name, "*") {
						storeResult(args[i], method.Type().Out(slices.Index(spec.results, name[1:])), want[name])
					}
				}
				return cu.Success
			})
			method.Call(in) // looks up the function
			f.take()
			out := method.Call(in)
			if err := out[len(out)-1].Interface(); err != nil {
				t.Fatal(err)
			}
			for i, name := range spec.results {
				if got := number(out[i]); got != want["*"+name] {
					t.Errorf("result %s is %#x, want %#x", name, got, want["*"+name])
				}
			}
			if got := f.asked[spec.symbol]; got != spec.version {
				t.Errorf("asked for version %d of %s, want %d", got, spec.symbol, spec.version)
			}
			checkArrived(t, f.take(), spec, want, version)

			f.on(spec.symbol, func([]uintptr) cu.Result { return cu.ErrorLaunchTimeout })
			out = method.Call(in)
			if err, _ := out[len(out)-1].Interface().(error); !errors.Is(err, cu.ErrorLaunchTimeout) {
				t.Errorf("error %v, want the driver's", err)
			}
		})
	}
}

// checkArrived compares the calls that arrived in C with the one that was made.
func checkArrived(t *testing.T, calls []fakeCall, spec callSpec, want map[string]uint64, version int32) {
	t.Helper()
	var symbols []string
	for _, c := range calls {
		symbols = append(symbols, c.symbol)
	}
	wantSymbols := []string{spec.symbol}
	byHandle := version >= minByHandle && spec.byHandle
	if len(spec.params) > 0 && spec.params[0] == "ctx" && !slices.Contains(spec.args, "ctx") && !byHandle {
		wantSymbols = []string{"cuCtxSetCurrent", spec.symbol}
	}
	if !reflect.DeepEqual(symbols, wantSymbols) {
		t.Fatalf("called %v, want %v", symbols, wantSymbols)
	}
	if len(calls) == 2 && uint64(calls[0].args[0]) != want["ctx"] {
		t.Errorf("context %#x, want %#x", calls[0].args[0], want["ctx"])
	}
	for i, name := range spec.args {
		got := uint64(calls[len(calls)-1].args[i])
		if name == "name" || strings.HasPrefix(name, "*") {
			continue // addresses; other tests check the memory there
		}
		if got != want[name] {
			t.Errorf("argument %d (%s) is %#x, want %#x", i, name, got, want[name])
		}
	}
}

// sample returns an argument for parameter i of some type, and the number that C must
// get.
func sample(t *testing.T, typ reflect.Type, i int) (reflect.Value, uint64) {
	v := reflect.New(typ).Elem()
	switch typ.Kind() {
	case reflect.Int32:
		v.SetInt(int64(-7 - i))
	case reflect.Uint8:
		v.SetUint(uint64(0x91 + i))
	case reflect.Uint16:
		v.SetUint(uint64(0x8101 + i))
	case reflect.Uint32:
		v.SetUint(0xf0000001 + uint64(i))
	case reflect.Uint64, reflect.Uintptr:
		v.SetUint(0xfedcba9800000000 + uint64(i))
	case reflect.String:
		v.SetString("kernel")
	case reflect.Pointer:
		v.Set(reflect.New(typ.Elem()))
		return v, uint64(v.Pointer())
	case reflect.UnsafePointer:
		v.SetPointer(reflect.New(reflect.TypeFor[[64]byte]()).UnsafePointer())
		return v, uint64(v.Pointer())
	default:
		t.Fatalf("no sample of %v", typ)
	}
	return v, number(v)
}

// storeResult writes a number as C writes a result of some type. An array of bytes begins with the
// number and its complement; one of 64 ends with a 3.
func storeResult(addr uintptr, typ reflect.Type, number uint64) {
	switch typ.Size() {
	case 4:
		store(addr, uint32(number))
	case 16:
		store(addr, [2]uint64{number, ^number})
	case 64:
		store(addr, [8]uint64{0: number, 1: ^number, 7: 3})
	default:
		store(addr, number)
	}
}

// number returns a Go value as the number that C gets, or that storeResult wrote.
func number(v reflect.Value) uint64 {
	switch v.Kind() {
	case reflect.Array:
		bytes := reflect.ValueOf(v.Interface())
		all := make([]byte, bytes.Len())
		reflect.Copy(reflect.ValueOf(all), bytes)
		first, second := binary.NativeEndian.Uint64(all), binary.NativeEndian.Uint64(all[8:])
		if second != ^first || len(all) == 64 && binary.NativeEndian.Uint64(all[56:]) != 3 {
			return 0
		}
		return first
	case reflect.Int32:
		return uint64(v.Int())
	case reflect.Float32:
		return uint64(math.Float32bits(float32(v.Float())))
	case reflect.String:
		return 0
	case reflect.UnsafePointer:
		return uint64(v.Pointer())
	}
	return v.Uint()
}
