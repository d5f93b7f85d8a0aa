package cu

import "fmt"

// OperationError reports a copy, a fill or another operation that failed after the call which
// queued it had returned, and that is no kernel. Only the software GPU returns one: memory
// that was unmapped after its registration, or a computer with too little memory, are errors
// of its own. The stream goes on as if the operation had done nothing, or a part of its work.
//
// One call returns it, once: the calls that return a [HostPanic], and a copy or fill in the
// same stream that waits for its end. Several errors are joined into one. OperationError wraps
// the code, which is not sticky, and the cause.
type OperationError struct {
	Operation string // such as "copy 65536 bytes host to device"
	Result    Result // the code of the cause
	Why       string // a text about the cause: which memory, why, and what to do
	Cause     error  // wrapped too; may be nil
}

func (e *OperationError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Operation, e.Result.Name(), e.Why)
}

// Unwrap returns the result, and the cause if there is one.
func (e *OperationError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Result}
	}
	return []error{e.Result, e.Cause}
}
