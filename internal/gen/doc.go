// Command gen writes the generated parts of the repository, or checks them. It
// runs in any folder of the module:
//
//	go generate ./...             # write the parts that differ
//	go run ./internal/gen         # the same
//	go run ./internal/gen -check  # write nothing; fail when a part is stale
//
// Package libcuda's calls are written here, from the lines above the methods of
// the interfaces in cu/driver.go. There is one line for each method:
//
//	//cu:call EXPORT VERSION (ARGUMENTS) [context=HANDLE]
//	//cu:hand EXPORT VERSION [context=HANDLE]
//
// EXPORT is the name under which the driver library exports the form of the C
// function that is called. An ending such as _v2 belongs to the form: the
// function is cuMemAlloc, the export cuMemAlloc_v2. Drivers since CUDA 11.3 are
// asked for the function and VERSION, older ones for EXPORT.
//
// VERSION is the CUDA version that introduced the form: 12040 is CUDA 12.4.
//
// ARGUMENTS are the C function's arguments in order, by the names of the method's
// parameters and results. A star marks a result, which C writes through a pointer.
// A first parameter "ctx Context" that is not among the arguments is the context
// that libcuda makes current for the call.
//
// context=HANDLE names the stream or event whose context the operation uses,
// whichever context is current. libcuda makes such a call without a current
// context where the driver allows it.
//
// A cu:call line becomes a method of libcuda.Driver. A cu:hand line only makes
// the function known; the method is written by hand in package libcuda.
//
// A line "//cu:also EXPORT VERSION" in the comment of an interface makes a
// function known that libcuda needs besides.
//
// The page of packages is written here too, from their comments and imports. So are the page of
// modules and the bill of materials, from what packages import and from the files of licences.
//
// The other parts are pages of docs/generated, pages of the cookbook, and files that
// ferry bind writes. A test of the package that a part is made from compares it, and
// writes it when run with -update; see parts.
package main

//go:generate go run .
