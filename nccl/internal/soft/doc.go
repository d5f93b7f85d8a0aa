// Package soft moves the data of communicators between software GPUs: a [backend.Library] in Go.
// Ranks of one process hand messages to each other in memory, ranks of several processes by TCP.
// One algorithm runs over both, so results have the same bits.
//
// A call of a rank goes through these steps. Submit queues an operation in the stream, and
// announces the call to the other ranks. The operation waits until all have announced the same
// call and, in one process, until all have begun. Then it moves data in steps, as messages.
// Announcements that differ, ranks that do not come and connections that end make the
// communicator fail on all ranks: operations end, and Err says which rank did what.
//
//	soft.go       the library: Open and Submit
//	comm.go       the communicator of a rank: its state, its errors, its end
//	call.go       one call of a rank, and what its operation does
//	announce.go   what ranks announce, and the comparison
//	local.go      what the ranks of one process share
//	inbox.go      messages that have come and are not read
//	wire.go       messages over TCP
//	connect.go    the connections of a communicator
//	ring.go       the algorithms, and the order of reduction
//	reduce.go     arithmetic of all data types; format.go has those narrower than float32
//	price.go      virtual time
//
// Lock order: submitting of communicators by id, then one of the others, which are leaves;
// but mu of wire and clock of link may be taken while mu of comm is held.
package soft
