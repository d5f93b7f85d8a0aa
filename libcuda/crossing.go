package libcuda

import "structs"

// maxArgs is the largest number of arguments of a function.
const maxArgs = 11

// step is a C function and its arguments. The function may have fewer.
type step [1 + maxArgs]uintptr

// binding makes a context current.
type binding struct {
	set uintptr // cuCtxSetCurrent; 0 for no context
	ctx uintptr
}

// call is one call from Go to C: it makes a context current and calls a function. It
// can be on a goroutine's stack, which moves when C calls Go. So it is not read after
// C has been called, and never written by the assembly. The assembly uses the offsets.
type call struct {
	_ structs.HostLayout
	binding
	params uintptr // the packed parameters of a launch; if not 0, the last argument describes them
	bytes  uintptr // the size of params
	step
}

// shortCall is a call of a function with up to four arguments, which leaves the
// current context as it is. The rules of call hold for it.
type shortCall struct {
	_                  structs.HostLayout
	fn, a0, a1, a2, a3 uintptr
}

// crossing is a call of several functions, until one fails. C reads it all the time,
// so it is on the heap. The assembly uses the offsets.
type crossing struct {
	_ structs.HostLayout
	binding
	steps *step // the first of n, at least 1
	n     uintptr
	done  uintptr // number of steps that succeeded
}
