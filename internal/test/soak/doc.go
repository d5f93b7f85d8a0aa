// Package soak runs many short tasks of many goroutines on one GPU for a long time, and
// watches whether the process stays the same. A task allocates, copies, launches, verifies
// its result and frees. Some tasks are cancelled, some get a wrong argument, some close
// what is in flight.
//
// [Run] runs the tasks in legs. After each leg no task runs, and a [Health] is taken: memory,
// address space, handles, goroutines, threads, descriptors. [Report.Flat] compares the last
// leg with an earlier one.
//
// The command internal/test/soak/longrun runs it for a given time. Between two
// comparisons of Ferry with peers in C, it shows whether Ferry is as fast at the end as at
// the start.
package soak
