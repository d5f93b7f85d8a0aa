package libcuda

import "structs"

// maxArgs is the most arguments of a function.
const maxArgs = 11

// step is a C function and its arguments. It need not use all of them.
type step [1 + maxArgs]uintptr

// binding makes a context current.
type binding struct {
	set uintptr // cuCtxSetCurrent; 0 for no context
	ctx uintptr
}

// call is one way to C and back: it makes a context current and calls a function.
// It may be on a goroutine's stack, which moves when C calls Go: nothing of it is
// looked at once C has been called, and it is not written. The assembly knows the
// offsets.
type call struct {
	_ structs.HostLayout
	binding
	params uintptr // of a launch, packed, 0 if there are none: the last argument then describes them
	bytes  uintptr
	step
}

// shortCall is a call of a function of up to four arguments, with the context that is
// current. What is said of call holds for it, too.
type shortCall struct {
	_                  structs.HostLayout
	fn, a0, a1, a2, a3 uintptr
}

// crossing is a call of several functions, until one fails. C goes on looking at
// it, so it is on the heap. The assembly knows the offsets.
type crossing struct {
	_ structs.HostLayout
	binding
	steps *step // the first of n, at least 1
	n     uintptr
	done  uintptr // steps that succeeded
}
