package kerneltest

import (
	"fmt"
	"reflect"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/measure/runner"
)

// Args are the arguments of one launch. [Slice], [Value] and [Device] return them by
// their position, from 0. For a wrong position or type, or nil Args, they panic, and the case
// fails. Args are valid during the call that gets them.
type Args struct {
	n    int
	args []runner.Arg
	data [][]byte // the bytes of each argument
	run  *trial   // nil in Want
}

// N returns the size: what the word N in [Case.Args] stands for.
func (a *Args) N() int {
	if a == nil {
		return 0
	}
	return a.n
}

// Len returns the number of arguments.
func (a *Args) Len() int {
	if a == nil {
		return 0
	}
	return len(a.args)
}

// wrongArg is the panic of an accessor with a wrong argument. Run makes it an error.
type wrongArg struct{ error }

func refuse(format string, args ...any) { panic(wrongArg{fmt.Errorf(format, args...)}) }

// catch stores the error of an accessor that refused its argument.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case wrongArg:
		*err = r.error
	default:
		panic(r)
	}
}

// argument returns an argument, which must be a scalar or a buffer.
func (a *Args) argument(what string, i int, scalar bool) *runner.Arg {
	if i < 0 || i >= a.Len() {
		refuse("%s of argument %d: there are %d, numbered from 0", what, i, a.Len())
	}
	if arg := &a.args[i]; (arg.Direction == runner.Scalar) == scalar {
		return arg
	}
	if scalar {
		refuse("%s of argument %d, %s: it is a buffer, use Slice", what, i, a.args[i].Text)
	}
	refuse("%s of argument %d, %s: it is a scalar, use Value", what, i, a.args[i].Text)
	return nil
}

// Slice returns the elements of buffer i. For inputs they are what the kernel gets, for
// outputs Want writes what it expects. T is the Go type for the buffer's type: float32 for
// f32, int32 for s32, [F16] or uint16 for f16. For bit patterns (b32) it is any type of
// that size. A structure or array of numbers can stand for several elements. A case whose
// Want uses another type or a wrong position fails. Slice is for [Case.Want] only.
func Slice[T any](a *Args, i int) []T {
	arg := a.argument("Slice", i, false)
	if a.run != nil {
		refuse("Slice of argument %d, %s: a launch uses Device", i, arg.Text)
	}
	checkType[T]("Slice", i, arg, len(a.data[i]))
	return sliceOf[T](a.data[i])
}

// Value returns scalar i. T is the Go type for its type, as for [Slice]. For a structure
// it is a struct of the same size.
func Value[T any](a *Args, i int) T {
	arg := a.argument("Value", i, true)
	checkType[T]("Value", i, arg, len(a.data[i]))
	if size := sizeOf[T](); size != len(a.data[i]) {
		refuse("Value of argument %d, %s: %v has %d bytes, want %d", i, arg.Text, reflect.TypeFor[T](), size, len(a.data[i]))
	}
	return sliceOf[T](a.data[i])[0]
}

// Device returns the memory of buffer i on the GPU, with elements of type T as for
// [Slice]. It is for [Case.Launch] only.
func Device[T any](a *Args, i int) *ferry.Device[T] {
	arg := a.argument("Device", i, false)
	if a.run == nil {
		refuse("Device of argument %d, %s: Want uses Slice", i, arg.Text)
	}
	checkType[T]("Device", i, arg, len(a.data[i]))
	d, err := memoryOf[T](a.run, i)
	if err != nil {
		refuse("argument %d, %s: %w", i, arg.Text, err)
	}
	return d
}

// checkType refuses a Go type that does not fit an argument of some bytes.
func checkType[T any](what string, i int, arg *runner.Arg, bytes int) {
	t := reflect.TypeFor[T]()
	if err := kernelargs.CheckElement(t); err != nil {
		refuse("%s of argument %d, %s: %w", what, i, arg.Text, err)
	}
	switch {
	case t.Size() == 0 || bytes%int(t.Size()) != 0:
		refuse("%s of argument %d, %s: %v has %d bytes, which does not divide %d", what, i, arg.Text, t, t.Size(), bytes)
	case t.Kind() != reflect.Struct && t.Kind() != reflect.Array && !fits(t, arg.Type):
		refuse("%s of argument %d, %s: %v does not fit %v", what, i, arg.Text, t, arg.Type)
	}
}

// fits reports whether a number of type t is an element of type typ.
func fits(t reflect.Type, typ runner.Type) bool {
	if int(t.Size()) != typ.Size() {
		return false
	}
	isFloat := t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64
	isSigned := t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64
	switch {
	case typ == runner.F16 || typ == runner.BF16:
		return t.Kind() == reflect.Uint16
	case typ.IsFloat():
		return isFloat
	case typ.IsInteger():
		return !isFloat && isSigned == (typ >= runner.S8)
	}
	return true
}
