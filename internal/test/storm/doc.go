// Package storm lets many goroutines use all public operations of package ferry at once, on two
// GPUs, in the worst of circumstances: driver calls fail, contexts end at any time and panic,
// readers, writers and other functions of the program panic, end their goroutine and call Ferry
// again, and everything shared is closed at any time. What an operation without an error has
// moved is right, nothing hangs, and at the end every object is accounted for.
//
// Its goroutines run the scenarios of package sweep, which have all operations, and acts, which use
// what the goroutines share. A test demands that no operation is missing.
package storm
