// Package launchrace finds races between launches, copies and fills that nothing orders.
//
// A [Check] belongs to a driver. Each operation has a [Track]: the driver says what it follows, when it
// begins and ends, and what the host has waited for. When a launch, copy or fill ends, the check gets what it
// has touched, a footprint of package kernelrace. Bytes that two have touched, and one has written, are a
// [Race] if neither comes before the other. Words that one operation releases and another acquires order
// them, too. So the order in which operations happened to run does not matter.
//
// The package knows no driver, no streams and no memory: package softgpu says what follows what, and which
// pages count. Races between threads of one launch are those of package kernelrace.
//
//	order.go    what comes before an operation, and before what the host does
//	check.go    what operations have touched, and which of them conflict
//	pending.go  conflicts that an operation which still runs may order
//	race.go     the report of a conflict
package launchrace
