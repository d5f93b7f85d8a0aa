package cu

import "fmt"

// HostPanic is a host function that panicked: a function that LaunchHostFunc or
// a graph ran in a stream. The stream goes on as if the function had returned;
// the panic is the error of the first of StreamSynchronize, StreamQuery,
// CtxSynchronize and CtxDestroy that finds the work done, once:
//
//   - on the stream the function was launched in;
//   - for a function recorded in a graph, whose stream is not known, on any
//     stream of its context;
//   - for a stream destroyed since, on the context.
//
// Several panics come together, joined. HostPanic wraps [ErrorUnknown], which is
// not sticky, and the value if that is an error.
type HostPanic struct {
	Value any    // what the function panicked with
	Stack []byte // where, as runtime/debug.Stack writes it
}

func (e *HostPanic) Error() string {
	return fmt.Sprintf("host function panicked: %v", e.Value)
}

// Format prints the stack for %+v.
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
