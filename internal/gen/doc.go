// Command gen writes the calls of package libcuda from the cu:call lines of
// cu/driver.go. It runs in any folder of the module:
//
//	go run ./internal/gen         # write the files that differ
//	go run ./internal/gen -check  # write nothing, fail when one differs
//
// A line of the form
//
//	//cu:call SYMBOL VERSION (args)
//
// above a method of an interface becomes a method of libcuda.Driver that calls
// SYMBOL in the form that CUDA VERSION introduced, with the arguments in the
// order of the line. A star marks a result of the method that C writes through
// a pointer. A first parameter "ctx cu.Context" that is not among the arguments
// is the context that the call is bound to.
//
// A line "//cu:hand SYMBOL VERSION" makes the symbol known and leaves the method
// to be written by hand.
package main
