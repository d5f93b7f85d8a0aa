package soft

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// notice is what ranks compare of a call.
type notice struct {
	kind  backend.Kind
	typ   backend.DataType
	op    backend.OpCode // 0 if it does not compute
	count int
	peer  int // the root, else 0
}

const noticeBytes = 3 + 8 + 4

func (k *call) notice() notice {
	n := notice{kind: k.Kind, typ: k.Type, count: k.Count}
	if k.Kind.Reduces() {
		n.op = k.Op.Code
	}
	if k.Kind.Rooted() || k.Kind.Pair() {
		n.peer = k.Peer
	}
	return n
}

func (n notice) encode() []byte {
	b := []byte{byte(n.kind), byte(n.typ), byte(n.op)}
	b = binary.LittleEndian.AppendUint64(b, uint64(n.count))
	return binary.LittleEndian.AppendUint32(b, uint32(n.peer))
}

// decodeNotice reads a notice of another process. Nothing in it is trusted.
func decodeNotice(b []byte) (n notice, ok bool) {
	if len(b) != noticeBytes {
		return n, false
	}
	n = notice{backend.Kind(b[0]), backend.DataType(b[1]), backend.OpCode(b[2]), int(binary.LittleEndian.Uint64(b[3:])), int(binary.LittleEndian.Uint32(b[11:]))}
	return n, n.kind <= backend.Recv && n.typ <= backend.Float8E5M2 && n.op <= backend.PreMulSum && n.count >= 0
}

// String returns what a rank calls: "all-reduce of 128 float32 (sum)".
func (n notice) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v of %d %v", n.kind, n.count, n.typ)
	switch {
	case n.kind.Reduces() && n.kind.Rooted():
		fmt.Fprintf(&b, " (%v) to rank %d", n.op, n.peer)
	case n.kind.Reduces():
		fmt.Fprintf(&b, " (%v)", n.op)
	case n.kind == backend.Broadcast || n.kind == backend.Scatter || n.kind == backend.Recv:
		fmt.Fprintf(&b, " from rank %d", n.peer)
	case n.kind.Rooted() || n.kind.Pair():
		fmt.Fprintf(&b, " to rank %d", n.peer)
	}
	return b.String()
}

// same reports whether two ranks make the same call, or are the two sides of a message.
func (n notice) same(m notice) bool {
	if n.kind.Pair() && m.kind.Pair() {
		return n.typ == m.typ && n.count == m.count
	}
	return n == m
}

func (k *call) describe() string { return k.notice().String() }

// title returns the name of a call in messages.
func (k key) title() string {
	if k.pair {
		return fmt.Sprintf("message %d from rank %d to rank %d", k.number, k.src, k.dst)
	}
	return fmt.Sprintf("call %d", k.number)
}

func (k *call) title() string { return k.key.title() + " (" + k.describe() + ")" }

// agreement is what the members of a call have announced. comm.mu guards it.
type agreement struct {
	comm    *comm
	key     key
	notices []*notice // by member
	n       int
	ready   chan struct{} // closed when all have announced the same
}

// agreement returns what is known of a call.
func (c *comm) agreement(k key) *agreement {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agreementLocked(k)
}

func (c *comm) agreementLocked(k key) *agreement {
	a := c.agreed[k]
	if a == nil {
		a = &agreement{comm: c, key: k, notices: make([]*notice, c.members(k)), ready: make(chan struct{})}
		c.agreed[k] = a
	}
	return a
}

// members returns the number of members of a call.
func (c *comm) members(k key) int {
	if k.pair {
		return 2
	}
	return c.size
}

// rankOf returns the rank of a member.
func (k key) rankOf(member int) int {
	switch {
	case !k.pair:
		return member
	case member == 0:
		return k.src
	}
	return k.dst
}

// forget drops a call that has ended: all have announced it.
func (c *comm) forget(k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.agreed, k)
}

// announce tells the members of the call that this rank makes it.
func (k *call) announce() {
	c := k.comm
	m := &message{kind: kindAnnounce, from: c.rank, key: k.key, member: k.member, data: k.notice().encode()}
	c.announced(m)
	for member := range c.members(k.key) {
		rank := k.key.rankOf(member)
		if rank != c.rank {
			c.peers[rank].send(m)
		}
	}
}

// announced notes that a rank has announced a call, and compares it with what others have announced.
func (c *comm) announced(m *message) {
	n, ok := decodeNotice(m.data)
	if !ok || !c.concerns(m) {
		c.fail(c.unreadable(m))
		return
	}
	if err := c.compare(m, n); err != nil {
		c.fail(err)
	}
}

// concerns reports whether a message is of a call that its sender and this rank can make.
func (c *comm) concerns(m *message) bool {
	switch {
	case m.member < 0 || m.member >= c.members(m.key) || m.key.rankOf(m.member) != m.from:
		return false
	case m.key.pair && m.kind == kindData && m.member != 0: // the receiver sends nothing
		return false
	case m.key.pair:
		return m.from == c.rank || m.key.rankOf(1-m.member) == c.rank
	}
	return m.key.src == 0 && m.key.dst == 0
}

func (c *comm) unreadable(m *message) error {
	return fmt.Errorf("communicator %s: a message of rank %d cannot be read", c.name, m.from)
}

func (c *comm) compare(m *message, n notice) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.from != c.rank {
		c.last[m.from] = fmt.Sprintf("%s, %v", m.key.title(), n)
	}
	a := c.agreementLocked(m.key)
	if a.notices[m.member] != nil {
		return fmt.Errorf("communicator %s, %s: rank %d has announced it twice", c.name, m.key.title(), m.from)
	}
	a.notices[m.member] = &n
	for member, other := range a.notices {
		if other != nil && !other.same(n) {
			return a.differ(min(member, m.member), max(member, m.member))
		}
	}
	if a.n++; a.n == len(a.notices) {
		close(a.ready)
	}
	return a.abandoned()
}

// abandoned returns an error if this rank makes the call, and another one has closed the communicator
// without it. The caller holds mu.
func (a *agreement) abandoned() error {
	var own *notice
	for member, n := range a.notices {
		if n != nil && a.key.rankOf(member) == a.comm.rank {
			own = n
		}
	}
	if own == nil {
		return nil
	}
	for member, n := range a.notices {
		if rank := a.key.rankOf(member); n == nil && a.comm.gone[rank] {
			return fmt.Errorf("communicator %s, %s: rank %d calls %v; rank %d has not called, and has closed the communicator",
				a.comm.name, a.key.title(), a.comm.rank, own, rank)
		}
	}
	return nil
}

// differ returns the error of two members with different calls.
func (a *agreement) differ(i, j int) error {
	return fmt.Errorf("communicator %s, %s: rank %d calls %v, rank %d calls %v",
		a.comm.name, a.key.title(), a.key.rankOf(i), a.notices[i], a.key.rankOf(j), a.notices[j])
}

func (a *agreement) isReady() bool {
	select {
	case <-a.ready:
		return true
	default:
		return false
	}
}

// missing returns the ranks that have not announced the call.
func (a *agreement) missing() (ranks []int) {
	a.comm.mu.Lock()
	defer a.comm.mu.Unlock()
	for member, n := range a.notices {
		if n == nil {
			ranks = append(ranks, a.key.rankOf(member))
		}
	}
	return ranks
}

// absent returns the error of a call for which ranks have not come in time.
func (k *call) absent(missing []int) error {
	c := k.comm
	c.mu.Lock()
	defer c.mu.Unlock()
	var waits []int
	for member, n := range k.agreed.notices {
		if n != nil {
			waits = append(waits, k.key.rankOf(member))
		}
	}
	var texts []string
	for _, rank := range missing {
		text := fmt.Sprintf("rank %d has not called: ", rank)
		last, called := c.last[rank]
		switch {
		case called:
			text += "its last call was " + last
		default:
			text += "it has made no call"
		}
		texts = append(texts, text)
	}
	if len(missing) == 0 {
		waits = []int{c.rank}
		for _, rank := range k.local.notBegun() {
			texts = append(texts, fmt.Sprintf("rank %d has called, but its stream has not come to the call", rank))
		}
	}
	return fmt.Errorf("communicator %s, %s: %s waited for %v; %s", c.name, k.title(), rankList(waits), c.config.Timeout, strings.Join(texts, "; "))
}

// stuck returns the error of a call in which a rank has stopped sending.
func (k *call) stuck(rank int) error {
	return fmt.Errorf("communicator %s, %s: rank %d has waited for data of rank %d for %v: that rank has called, but its operation has not come so far",
		k.comm.name, k.title(), k.comm.rank, rank, k.comm.config.Timeout)
}

// rankList returns "rank 3", or "ranks 1, 2 and 5".
func rankList(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	var b strings.Builder
	b.WriteString("ranks ")
	for i, r := range ranks {
		switch {
		case i > 0 && i == len(ranks)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, r)
	}
	return b.String()
}
