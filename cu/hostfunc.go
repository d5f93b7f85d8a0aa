package cu

import "fmt"

// HostPanic reports a host function that panicked: a function that LaunchHostFunc or
// a graph ran in a stream. The stream goes on as if the function had returned. The
// first StreamSynchronize, StreamQuery, CtxSynchronize or CtxDestroy that finds the
// work done returns the panic, once:
//
//   - for a function launched in a stream, a call on that stream or its context;
//   - for a function recorded in a graph, whose stream is not known, a call on any
//     stream of its context, or on the context;
//   - for a function of a stream destroyed since, a call on the context.
//
// No other call returns it. A call that only needs work to be done, such as MemFree,
// MemFreeHost, MemHostUnregister or ModuleUnload, does its own work and returns nil.
//
// Several panics are joined into one error. HostPanic wraps [ErrorUnknown], which is
// not sticky, and the value if it is an error.
type HostPanic struct {
	Value any    // the argument of panic
	Stack []byte // the stack at the panic, as from runtime/debug.Stack
}

func (e *HostPanic) Error() string {
	return fmt.Sprintf("host function panicked: %v", e.Value)
}

// Format prints the stack too for %+v.
func (e *HostPanic) Format(s fmt.State, verb rune) {
	fmt.Fprint(s, e.Error())
	if verb == 'v' && s.Flag('+') {
		fmt.Fprintf(s, "\n%s", e.Stack)
	}
}

func (e *HostPanic) Unwrap() []error {
	if err, ok := e.Value.(error); ok {
		return []error{ErrorUnknown, err}
	}
	return []error{ErrorUnknown}
}
