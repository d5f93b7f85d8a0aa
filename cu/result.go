package cu

import (
	"cmp"
	"slices"
	"strconv"
)

// Result is the result code of a driver call: CUDA's CUresult as a Go error.
//
// A Driver returns nil for [Success], and a Result, perhaps wrapped, for every other
// code. Compare with errors.Is:
//
//	if errors.Is(err, cu.ErrorOutOfMemory) { ... }
//
// The number is CUDA's, so a code that this version of Ferry does not know can also be
// returned, compared and printed. A Result is a plain value, safe for concurrent use.
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
type Result uint32

// Success means that the call did what was asked; for a query, that the work in
// question is complete. Success in a variable of type error is not nil.
const Success Result = 0

// Calls and their arguments, the installed driver and the process.
const (
	ErrorInvalidValue            Result = 1
	ErrorOutOfMemory             Result = 2
	ErrorNotInitialized          Result = 3
	ErrorDeinitialized           Result = 4
	ErrorProfilerDisabled        Result = 5
	ErrorProfilerNotInitialized  Result = 6
	ErrorProfilerAlreadyStarted  Result = 7
	ErrorProfilerAlreadyStopped  Result = 8
	ErrorStubLibrary             Result = 34
	ErrorCallRequiresNewerDriver Result = 36
)

// Devices.
const (
	ErrorDeviceUnavailable Result = 46
	ErrorNoDevice          Result = 100
	ErrorInvalidDevice     Result = 101
	ErrorDeviceNotLicensed Result = 102
)

// Modules, contexts, mapped resources and the PTX compiler.
const (
	ErrorInvalidImage            Result = 200
	ErrorInvalidContext          Result = 201
	ErrorContextAlreadyCurrent   Result = 202
	ErrorMapFailed               Result = 205
	ErrorUnmapFailed             Result = 206
	ErrorArrayIsMapped           Result = 207
	ErrorAlreadyMapped           Result = 208
	ErrorNoBinaryForGPU          Result = 209
	ErrorAlreadyAcquired         Result = 210
	ErrorNotMapped               Result = 211
	ErrorNotMappedAsArray        Result = 212
	ErrorNotMappedAsPointer      Result = 213
	ErrorECCUncorrectable        Result = 214
	ErrorUnsupportedLimit        Result = 215
	ErrorContextAlreadyInUse     Result = 216
	ErrorPeerAccessUnsupported   Result = 217
	ErrorInvalidPTX              Result = 218
	ErrorInvalidGraphicsContext  Result = 219
	ErrorNVLinkUncorrectable     Result = 220
	ErrorJITCompilerNotFound     Result = 221
	ErrorUnsupportedPTXVersion   Result = 222
	ErrorJITCompilationDisabled  Result = 223
	ErrorUnsupportedExecAffinity Result = 224
	ErrorUnsupportedDevsideSync  Result = 225
	ErrorContained               Result = 226
)

// Source files, shared objects and the operating system.
const (
	ErrorInvalidSource              Result = 300
	ErrorFileNotFound               Result = 301
	ErrorSharedObjectSymbolNotFound Result = 302
	ErrorSharedObjectInitFailed     Result = 303
	ErrorOperatingSystem            Result = 304
)

// Handles, names and unfinished work.
const (
	ErrorInvalidHandle Result = 400
	ErrorIllegalState  Result = 401
	ErrorLossyQuery    Result = 402
	ErrorNotFound      Result = 500
	ErrorNotReady      Result = 600
)

// Kernels that could not start or went wrong, peer access, primary contexts and
// registered memory.
const (
	ErrorIllegalAddress              Result = 700
	ErrorLaunchOutOfResources        Result = 701
	ErrorLaunchTimeout               Result = 702
	ErrorLaunchIncompatibleTexturing Result = 703
	ErrorPeerAccessAlreadyEnabled    Result = 704
	ErrorPeerAccessNotEnabled        Result = 705
	ErrorPrimaryContextActive        Result = 708
	ErrorContextIsDestroyed          Result = 709
	ErrorAssert                      Result = 710
	ErrorTooManyPeers                Result = 711
	ErrorHostMemoryAlreadyRegistered Result = 712
	ErrorHostMemoryNotRegistered     Result = 713
	ErrorHardwareStackError          Result = 714
	ErrorIllegalInstruction          Result = 715
	ErrorMisalignedAddress           Result = 716
	ErrorInvalidAddressSpace         Result = 717
	ErrorInvalidPC                   Result = 718
	ErrorLaunchFailed                Result = 719
	ErrorCooperativeLaunchTooLarge   Result = 720
	ErrorTensorMemoryLeak            Result = 721
)

// What this system, its configuration or its MPS server refuses.
const (
	ErrorNotPermitted               Result = 800
	ErrorNotSupported               Result = 801
	ErrorSystemNotReady             Result = 802
	ErrorSystemDriverMismatch       Result = 803
	ErrorCompatNotSupportedOnDevice Result = 804
	ErrorMPSConnectionFailed        Result = 805
	ErrorMPSRPCFailure              Result = 806
	ErrorMPSServerNotReady          Result = 807
	ErrorMPSMaxClientsReached       Result = 808
	ErrorMPSMaxConnectionsReached   Result = 809
	ErrorMPSClientTerminated        Result = 810
	ErrorCDPNotSupported            Result = 811
	ErrorCDPVersionMismatch         Result = 812
)

// Stream capture, graphs, waits, clusters and the rest.
const (
	ErrorStreamCaptureUnsupported     Result = 900
	ErrorStreamCaptureInvalidated     Result = 901
	ErrorStreamCaptureMerge           Result = 902
	ErrorStreamCaptureUnmatched       Result = 903
	ErrorStreamCaptureUnjoined        Result = 904
	ErrorStreamCaptureIsolation       Result = 905
	ErrorStreamCaptureImplicit        Result = 906
	ErrorCapturedEvent                Result = 907
	ErrorStreamCaptureWrongThread     Result = 908
	ErrorTimeout                      Result = 909
	ErrorGraphExecUpdateFailure       Result = 910
	ErrorExternalDevice               Result = 911
	ErrorInvalidClusterSize           Result = 912
	ErrorFunctionNotLoaded            Result = 913
	ErrorInvalidResourceType          Result = 914
	ErrorInvalidResourceConfiguration Result = 915
	ErrorKeyRotation                  Result = 916
	ErrorUnknown                      Result = 999
)

// Name returns CUDA's name of the code, such as "CUDA_ERROR_INVALID_VALUE". For a code
// that Ferry does not know it returns the number: "CUDA_ERROR_12345".
func (r Result) Name() string {
	if e, ok := r.entry(); ok {
		return e.name
	}
	return "CUDA_ERROR_" + strconv.FormatUint(uint64(r), 10)
}

// ResultNamed returns the code with a name such as "CUDA_ERROR_INVALID_VALUE", and whether
// there is one.
func ResultNamed(name string) (Result, bool) {
	i := slices.IndexFunc(resultTable, func(e resultEntry) bool { return e.name == name })
	if i < 0 {
		return 0, false
	}
	return resultTable[i].code, true
}

// Description returns what the code means and, where possible, what to do. The text
// starts in lower case and ends without a period, so that it can be part of an error
// text. It is never empty.
func (r Result) Description() string {
	if e, ok := r.entry(); ok {
		return e.text
	}
	return "a code that this version of Ferry does not know; the driver may be newer"
}

// Error returns the name and the description: "CUDA_ERROR_NO_DEVICE: the driver
// found no GPU that ...".
func (r Result) Error() string {
	return r.Name() + ": " + r.Description()
}

// Sticky reports whether the error has made the context unusable.
//
// After another error the context works as before, and the program can go on. After
// a sticky error every later call that uses the context returns the same error, and
// the contents of device memory are undefined. Most sticky errors are asynchronous:
// the call that reports one is seldom the call that caused it. CUDA guarantees
// recovery only in a new process. On an H200 nothing else helped, also not after
// [ErrorAssert], where the manual says that a new context is enough.
//
// ErrorDeinitialized and ErrorContextIsDestroyed are not sticky: they report that
// something has ended, not that it failed.
func (r Result) Sticky() bool {
	switch r {
	case ErrorIllegalAddress, ErrorMisalignedAddress, ErrorInvalidAddressSpace,
		ErrorIllegalInstruction, ErrorInvalidPC, ErrorHardwareStackError,
		ErrorLaunchFailed, ErrorLaunchTimeout, ErrorAssert, ErrorTensorMemoryLeak, // by a kernel
		ErrorECCUncorrectable, ErrorNVLinkUncorrectable, ErrorContained, // by the hardware
		ErrorExternalDevice, ErrorMPSClientTerminated: // by another device or process
		return true
	}
	return false
}

// entry finds r in the table.
func (r Result) entry() (resultEntry, bool) {
	i, ok := slices.BinarySearchFunc(resultTable, r, func(e resultEntry, r Result) int {
		return cmp.Compare(e.code, r)
	})
	if !ok {
		return resultEntry{}, false
	}
	return resultTable[i], true
}
