package nccl

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// Op says how a reduction combines elements (ncclRedOp_t).
type Op int32

// The operations that every communicator has.
const (
	Sum  Op = iota // ncclSum
	Prod           // ncclProd: the product
	Max            // ncclMax
	Min            // ncclMin
	Avg            // ncclAvg: the sum divided by the number of ranks
)

// builtinOps is the number of operations that every communicator has.
const builtinOps = Avg + 1

// String returns "sum", "product", "maximum", "minimum" or "average", and for one of [ScaledSum] "scaled sum 1".
func (o Op) String() string {
	if o >= 0 && o < builtinOps {
		return backend.OpCode(o).String()
	}
	return fmt.Sprintf("scaled sum %d", int32(o-builtinOps)%mostOps+1)
}

// mostOps is how many operations a communicator can have beside the builtin ones.
const mostOps = 1 << 16

// opNumber returns the Op of the operation with an index. It has bits of the communicator's number,
// so that another one refuses it.
func (c *Comm) opNumber(i int) Op { return builtinOps + Op(c.number&0x3fff)<<16 + Op(i) }

// ownOp is an operation of ScaledSum.
type ownOp struct {
	op  backend.Op
	typ backend.DataType
}

// ScaledSum makes an operation that multiplies each element of this rank by factor and then adds
// those of all ranks (ncclRedOpCreatePreMulSum). It is for elements of type T in calls of this
// communicator. Each rank makes its own, and the factors may differ. It lives as long as the
// communicator, which keeps one for each factor. It is safe for concurrent use.
func ScaledSum[T Number](c *Comm, factor T) (Op, error) {
	const what = "make a scaled sum"
	if c == nil {
		return 0, errNoComm(what)
	}
	if err := c.begin(what); err != nil {
		return 0, err
	}
	defer c.end()
	t, _ := typeOf[T](1)
	for i, own := range c.ops {
		if own.typ == t && own.op.Factor == bitsOf(factor) {
			return c.opNumber(i), nil
		}
	}
	if len(c.ops) == mostOps {
		return 0, refusal.Invalid("%s for %v: it has %d already, with different factors", what, c, mostOps)
	}
	op, err := c.backend.PreMulSum(t, bitsOf(factor))
	if err != nil {
		return 0, fmt.Errorf("%s of %v elements for %v: %w", what, t, c, err)
	}
	c.ops = append(c.ops, ownOp{op, t})
	return c.opNumber(len(c.ops) - 1), nil
}

// bitsOf returns an element in the host's order of bytes, which is the GPU's.
func bitsOf[T Number](x T) (b [8]byte) {
	switch x := any(x).(type) {
	case int8:
		b[0] = byte(x)
	case uint8:
		b[0] = x
	case Float8E4M3:
		b[0] = byte(x)
	case Float8E5M2:
		b[0] = byte(x)
	case Float16:
		binary.LittleEndian.PutUint16(b[:], uint16(x))
	case BFloat16:
		binary.LittleEndian.PutUint16(b[:], uint16(x))
	case int32:
		binary.LittleEndian.PutUint32(b[:], uint32(x))
	case uint32:
		binary.LittleEndian.PutUint32(b[:], x)
	case float32:
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(x))
	case int64:
		binary.LittleEndian.PutUint64(b[:], uint64(x))
	case uint64:
		binary.LittleEndian.PutUint64(b[:], x)
	case float64:
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(x))
	}
	return b
}

// reduction returns the operation for a call with elements of a type. The caller holds c.turn.
func (c *Comm) reduction(o Op, t backend.DataType) (backend.Op, error) {
	if o >= 0 && o < builtinOps {
		return backend.Op{Code: backend.OpCode(o)}, nil
	}
	i := int(o - c.opNumber(0))
	if o < 0 || i < 0 || i >= len(c.ops) {
		return backend.Op{}, refusal.Invalid("operation %d is not one of %v: use Sum, Prod, Max, Min, Avg or the result of ScaledSum for this communicator", int32(o), c)
	}
	if own := c.ops[i]; own.typ != t {
		return backend.Op{}, refusal.Invalid("%v was made for elements of type %v, not %v", o, own.typ, t)
	}
	return c.ops[i].op, nil
}
