// Package backend is the seam between package nccl and what moves the data: NVIDIA's library
// (nccl/internal/library), or the software GPU's (nccl/internal/soft). Package nccl checks
// arguments, keeps memory in flight and groups calls. A backend queues the calls in streams.
package backend

import (
	"context"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Kind is what a call does.
type Kind uint8

// The kinds of calls.
const (
	AllReduce Kind = iota
	Broadcast
	Reduce
	AllGather
	ReduceScatter
	AllToAll
	Gather
	Scatter
	Send
	Recv
)

var kindNames = [...]string{"all-reduce", "broadcast", "reduce", "all-gather", "reduce-scatter", "all-to-all", "gather", "scatter", "send", "receive"}

func (k Kind) String() string { return kindNames[k] }

// Reduces reports whether calls of the kind compute.
func (k Kind) Reduces() bool { return k == AllReduce || k == Reduce || k == ReduceScatter }

// Rooted reports whether one rank is the root of the call.
func (k Kind) Rooted() bool { return k == Broadcast || k == Reduce || k == Gather || k == Scatter }

// Pair reports whether the call is one of two ranks.
func (k Kind) Pair() bool { return k == Send || k == Recv }

// Parts reports whether a rank sends and receives in a call. root says whether it is the root.
func (k Kind) Parts(root bool) (sends, receives bool) {
	switch k {
	case Broadcast, Scatter:
		return root, true
	case Reduce, Gather:
		return true, root
	}
	return k != Recv, k != Send
}

// DataType is ncclDataType_t.
type DataType uint8

// The data types, with NCCL's numbers.
const (
	Int8 DataType = iota
	Uint8
	Int32
	Uint32
	Int64
	Uint64
	Float16
	Float32
	Float64
	BFloat16
	Float8E4M3
	Float8E5M2
)

var types = [...]struct {
	name string
	size int
}{{"int8", 1}, {"uint8", 1}, {"int32", 4}, {"uint32", 4}, {"int64", 8}, {"uint64", 8}, {"float16", 2}, {"float32", 4}, {"float64", 8}, {"bfloat16", 2}, {"float8_e4m3", 1}, {"float8_e5m2", 1}}

func (t DataType) String() string { return types[t].name }

// Size returns the bytes of an element.
func (t DataType) Size() int { return types[t].size }

// OpCode is ncclRedOp_t of the operations that every communicator has.
type OpCode uint8

// The operations, with NCCL's numbers. PreMulSum has none: a communicator makes it.
const (
	Sum OpCode = iota
	Prod
	Max
	Min
	Avg
	PreMulSum
)

var opNames = [...]string{"sum", "product", "maximum", "minimum", "average", "scaled sum"}

func (o OpCode) String() string { return opNames[o] }

// Op is a reduction.
type Op struct {
	Code   OpCode
	Handle int32   // of PreMulSum in the communicator that made it
	Factor [8]byte // of PreMulSum: an element in the host's order of bytes
}

// Call is one call of a rank. Counts are in elements, as NCCL's functions have them:
// of the whole buffer for AllReduce, Broadcast, Reduce, Send and Recv, and of the part of one rank
// for AllGather (what each sends), ReduceScatter (what each receives), AllToAll, Gather and Scatter.
type Call struct {
	Kind  Kind
	Type  DataType
	Op    Op
	Count int
	Peer  int // the root, or the other rank of Send and Recv

	Send, Recv uint64 // device addresses; 0 where the call has none
	// The number of bytes at Send and Recv.
	SendBytes, RecvBytes int
}

// Item is a call in a group: which communicator makes it, and in which stream.
type Item struct {
	Comm   Comm
	Stream cu.Stream
	Call   Call
}

// Library makes communicators.
type Library interface {
	// Name returns the name with the version, and Path the file, "" for software.
	Name() string
	Path() string
	// Open makes the communicator of a rank on a GPU. All ranks of the session call it. ctx bounds it.
	Open(ctx context.Context, c *Config) (Comm, error)
	// Submit queues calls, all or none, and returns when they are queued. The thread has a context
	// of one of the GPUs. The calls can be of several communicators. A slice of one call
	// is no group.
	Submit(group []Item) error
}

// Session is how the ranks of a communicator talk beside it: rendezvous.Session, over TCP or inside a
// process.
type Session interface {
	Rank() int
	Size() int
	// Gather hands mine to every rank and returns what each handed over, in the order of ranks. All
	// ranks call it with the same key. Calls with different keys can be in progress at once.
	Gather(ctx context.Context, key string, mine []byte) ([][]byte, error)
	// Lost is closed when another rank's process has ended without Close. Err then names that rank.
	Lost() <-chan struct{}
	Err() error
	// Split returns a session of the ranks that give the same color, in the order of their keys and
	// then of their ranks. All ranks call it. A rank with color -1 gets nil. Closing one does
	// not close the other.
	Split(ctx context.Context, color, key int) (Session, error)
	// Close says goodbye: the others do not count this rank as lost.
	Close() error
	// Abandon leaves without a goodbye: the others find this rank lost, and why.
	Abandon(why error) error
}

// Config says what Open makes.
type Config struct {
	Driver  cu.Driver
	Context cu.Context
	Device  cu.Device
	Session Session       // of the ranks
	Name    string        // for messages
	Timeout time.Duration // how long a call may wait for a rank that does not come; 0: for ever
	// Verify asks for a comparison of what ranks announce before each call. Software always does.
	Verify bool
}

// Comm is the communicator of a rank. Its methods are safe for concurrent use, and Abort also beside
// Submit.
type Comm interface {
	// Err returns the error of asynchronous work, and nil while there is none.
	Err() error
	// Split makes communicators of the ranks that give the same color, in the order of their
	// keys. All ranks call it. A rank with color -1 gets nil. session is that of the
	// ranks of the new communicator, nil for color -1.
	Split(ctx context.Context, color, key int, session Session, name string) (Comm, error)
	// PreMulSum makes a sum of elements that are each multiplied by a factor, 1 element of type t.
	PreMulSum(t DataType, factor [8]byte) (Op, error)
	DestroyOp(Op) error
	// Register prepares memory for faster calls.
	Register(address uint64, bytes int) (handle uintptr, err error)
	Deregister(handle uintptr) error
	// Close waits for queued work of the ranks until ctx ends, and then frees the communicator.
	Close(ctx context.Context) error
	// Abort ends the work in flight, which leaves its memory with any contents, and frees the
	// communicator. It returns when no work of it uses memory any more.
	Abort() error
}
