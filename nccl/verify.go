package nccl

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"

	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// verify compares the calls of all ranks before they are queued, for communicators with
// Options.Verify. NCCL would hang, or write other memory, if they differ. Sends and receives are not
// compared: only two ranks make them. The callers hold the turns of the communicators.
func verify(calls []pending) error {
	if !calls[0].c.options.Verify {
		return nil
	}
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	for i := range calls {
		p := &calls[i]
		if p.call.Kind.Pair() {
			continue
		}
		p.c.calls++
		number := p.c.calls
		all.Go(func() { errs[i] = p.c.agree(number, &p.call) })
	}
	all.Wait()
	return refusal.Join(errs...)
}

// agree compares one call.
func (c *Comm) agree(number int, q *backend.Call) error {
	ctx, stop := c.limit()
	defer stop()
	got, err := c.session.Gather(ctx, "call "+strconv.Itoa(number), announcement(q))
	if err != nil {
		return fmt.Errorf("%v by %v, call %d: %w", q.Kind, c, number, err)
	}
	mine := got[c.rank]
	for rank, theirs := range got {
		if string(theirs) != string(mine) {
			return c.refuse(q.Kind, "call %d: rank %d makes %s, and rank %d makes %s", number, c.rank, announced(mine), rank, announced(theirs))
		}
	}
	return nil
}

// announcement is what must be the same for all ranks.
func announcement(q *backend.Call) []byte {
	b := []byte{byte(q.Kind), byte(q.Type), byte(q.Op.Code)}
	b = binary.LittleEndian.AppendUint64(b, uint64(q.Count))
	return binary.LittleEndian.AppendUint64(b, uint64(q.Peer))
}

// announced is the text of an announcement.
func announced(b []byte) string {
	if len(b) != 19 || b[0] > byte(backend.Recv) || b[1] > byte(backend.Float8E5M2) || b[2] > byte(backend.PreMulSum) {
		return "a call that is not understood"
	}
	kind := backend.Kind(b[0])
	text := fmt.Sprintf("%v of %d elements of type %v", kind, binary.LittleEndian.Uint64(b[3:]), backend.DataType(b[1]))
	if kind.Reduces() {
		text += fmt.Sprintf(" by %v", backend.OpCode(b[2]))
	}
	if kind.Rooted() {
		text += fmt.Sprintf(" with root %d", binary.LittleEndian.Uint64(b[11:]))
	}
	return text
}
