package backend

import "strconv"

// Result is ncclResult_t.
type Result int32

// The results, with NCCL's numbers.
const (
	Success Result = iota
	UnhandledCUDAError
	SystemError
	InternalError
	InvalidArgument
	InvalidUsage
	RemoteError
	InProgress
)

var resultNames = [...]string{"ncclSuccess", "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError", "ncclInvalidArgument", "ncclInvalidUsage", "ncclRemoteError", "ncclInProgress"}

// Error returns the name in nccl.h.
func (r Result) Error() string {
	if r >= 0 && int(r) < len(resultNames) {
		return resultNames[r]
	}
	return "ncclResult_t " + strconv.Itoa(int(r))
}

// ResultError is a result of NCCL that is no success.
type ResultError struct {
	Function string // ncclAllReduce
	Result   Result
	Text     string // by ncclGetErrorString
	Detail   string // by ncclGetLastError, or ""
}

// Error returns all of it: "ncclAllReduce: ncclInvalidArgument: invalid argument: ...".
func (e *ResultError) Error() string {
	text := e.Function + ": " + e.Result.Error() + ": " + e.Text
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Unwrap returns the Result.
func (e *ResultError) Unwrap() error { return e.Result }
