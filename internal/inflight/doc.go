// Package inflight knows which operations of which streams still use a resource,
// so that memory is neither freed nor touched while the hardware uses it.
//
// A [Stream] numbers its operations and knows up to which number they are done. A
// [Tracker] belongs to a resource, such as a buffer or a module. For each stream it
// keeps the numbers of the last operation that reads the resource and of the last
// that writes it. An [Op] is one operation while it is being submitted: it counts
// as a user of the stream and of everything acquired for it, and [Op.End] releases
// all of that on every way out. An [Event] knows what a recorded event stands for.
// A [Recorder] collects what a captured graph will use.
//
// An operation records no event on the device. A stream is synchronized only when a
// goroutine waits for an operation that is not known to be done.
//
// The package knows no driver. A Stream's [Owner] waits for its work.
//
// All types are safe for concurrent use, except Op, which belongs to one goroutine. Shared
// words are accessed by atomic operations, or under a lock. Tracker.mu, birth.mu and
// Recorder.mu are leaf locks: no other lock is taken while one is held. Stream.drains is
// held while a goroutine waits for the short operation of the stream to end. No lock is
// held while an Owner is called.
package inflight
