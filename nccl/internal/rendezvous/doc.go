// Package rendezvous lets the ranks of a program find each other over TCP, before NCCL can.
//
// [FromEnvironment] reads from the variables of a launcher which rank this process is. [Join] meets
// the other ranks at rank 0, and [Session.Gather] hands bytes around, such as the unique id of a
// communicator. A session also notices when the process of a rank has ended.
//
// The ranks form a star. Rank 0 has a hub, which holds what ranks offer until all have offered; its
// own session and the connections of the others are members of the hub. [Local] is a hub whose
// members are all in this process.
//
// A process that connects must prove that it knows the token: both sides send a random number, and
// answer with an HMAC-SHA256 of everything said so far. The token itself is never sent. This keeps
// strangers out. It does not hide or protect what is sent afterwards, as NCCL does not either.
// Without a token rank 0 listens on the loopback interface alone.
//
// The package knows no GPU and no driver. Locks: that of a hub is taken before that of a session or
// of a link.
package rendezvous
