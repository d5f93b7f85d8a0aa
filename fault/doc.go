// Package fault lets driver calls fail, so that a program's tests can see what happens
// then. [Wrap] returns a [cu.Driver] whose calls fail as [Options] say:
//
//   - refused: the call does nothing and returns an error;
//   - done: the call does its work, and still returns an error;
//   - sticky: it and every call after it return the error, as after a fault of a kernel;
//   - late: the call works, after a delay;
//   - async: a launch or copy is accepted and not done, and the next call that waits returns the
//     error;
//   - never, late callback: a host function waits for [Driver.Release], or for a delay.
//
// What a call has created before it "fails" the wrapper frees again, because the caller has
// no handle. A free that was done counts as done. [Driver.Live] lists what was created and
// not freed, so that a test can look for leaks.
//
// Set FERRY_FAULT to let calls of any program that uses package ferry fail:
//
//	FERRY_FAULT=cuMemAlloc:3:CUDA_ERROR_OUT_OF_MEMORY   the third cuMemAlloc is refused
//	FERRY_FAULT=seed:7                                  one call of 64 fails, by this seed
//
// The methods are generated from cu.Driver. Hooks beside them say what calls create, free and
// allocate, and which of them wait.
package fault
