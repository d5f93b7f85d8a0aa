package rendezvous

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// kind says what a message means.
type kind byte

const (
	offer    kind = 1 + iota // to the hub: one part, the value of the rank for a key
	withdraw                 // to the hub: the rank waits for a key no longer
	leave                    // to the hub: the rank closes its session in the room
	abandon                  // to the hub: the rank gives up the room; one part, why
	enter                    // to the hub: the rank has opened its session in the room of a split
	bye                      // both ways, of no room: the process closes its last session
	result                   // from the hub: one part for each rank, the values of a key
	present                  // from the hub, answers withdraw: the bits of the ranks that wait, and of those that have waited
	left                     // from the hub: as present, but nobody can get the key, because a rank has left
	lost                     // from the hub: a rank has ended; one part, what is known of it
	lastKind = lost
)

// aborted is the key of the message lost about a rank that has said so.
const aborted = "aborted"

// Limits of what is sent.
const (
	maxKey   = 255
	maxValue = 1 << 20
	maxSize  = 1 << 16 // ranks
)

// message is what a rank and the hub tell each other, once they have agreed to talk.
type message struct {
	kind  kind
	room  uint64
	rank  int
	key   string
	parts [][]byte
	frame []byte // the encoded message, if it is sent to several
}

// The bytes of a message: kind, length of the key, key, room in 8 bytes, rank and number of parts in
// 4 bytes each, and each part behind its length in 4 bytes. All numbers are big-endian. On the wire
// the length of the whole stands before it in 4 bytes.
const headBytes = 1 + 1 + 8 + 4 + 4

// wire returns the message as it is sent, with its length.
func (m *message) wire() []byte {
	if m.frame != nil {
		return m.frame
	}
	n := headBytes + len(m.key)
	for _, p := range m.parts {
		n += 4 + len(p)
	}
	b := make([]byte, 0, 4+n)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	b = append(b, byte(m.kind), byte(len(m.key)))
	b = append(b, m.key...)
	b = binary.BigEndian.AppendUint64(b, m.room)
	b = binary.BigEndian.AppendUint32(b, uint32(m.rank))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.parts)))
	for _, p := range m.parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	return b
}

var errShort = errors.New("a message that ends too early")

// parseMessage reads a message without its length. The parts stay within b.
func parseMessage(b []byte) (message, error) {
	if len(b) < headBytes || len(b) < headBytes+int(b[1]) {
		return message{}, errShort
	}
	m := message{kind: kind(b[0])}
	if m.kind == 0 || m.kind > lastKind {
		return message{}, fmt.Errorf("a message of the unknown kind %d", b[0])
	}
	n := int(b[1])
	m.key, b = string(b[2:2+n]), b[2+n:]
	m.room = binary.BigEndian.Uint64(b)
	rank, count := binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])
	b = b[16:]
	if rank >= maxSize || count > maxSize {
		return message{}, fmt.Errorf("a message with rank %d and %d parts, of at most %d", rank, count, maxSize)
	}
	if int(count)*4 > len(b) {
		return message{}, errShort
	}
	m.rank = int(rank)
	if count > 0 {
		m.parts = make([][]byte, count)
	}
	for i := range m.parts {
		if len(b) < 4 {
			return message{}, errShort
		}
		n := binary.BigEndian.Uint32(b)
		if b = b[4:]; uint64(n) > uint64(len(b)) {
			return message{}, errShort
		}
		m.parts[i], b = b[:n:n], b[n:]
	}
	if len(b) > 0 {
		return message{}, fmt.Errorf("a message with %d bytes too many", len(b))
	}
	return m, nil
}

// largest returns how many bytes a message may have that one of size ranks sends or, for fromHub,
// gets.
func largest(size int, fromHub bool) int64 {
	parts := int64(1)
	if fromHub {
		parts = int64(max(size, 2))
	}
	return headBytes + maxKey + parts*(4+maxValue)
}

// checkFor returns an error for a message that a rank must not send to the hub.
func (m *message) checkFor() error {
	switch {
	case m.kind > bye:
		return fmt.Errorf("a message of the kind %d, which only rank 0 sends", m.kind)
	case (m.kind == offer || m.kind == abandon) && len(m.parts) != 1:
		return fmt.Errorf("a message of the kind %d with %d parts", m.kind, len(m.parts))
	}
	return nil
}

// checkFrom returns an error for a message that the hub must not send to one of size ranks.
func (m *message) checkFrom(size int) error {
	want, lists := 0, m.kind == present || m.kind == left
	switch {
	case m.kind < bye:
		return fmt.Errorf("a message of the kind %d, which rank 0 never sends", m.kind)
	case m.kind == result:
		want = size
	case m.kind == lost:
		want = 1
	case lists:
		want = 2
	}
	if len(m.parts) != want {
		return fmt.Errorf("a message of the kind %d with %d parts, want %d", m.kind, len(m.parts), want)
	}
	if m.rank >= size {
		return fmt.Errorf("a message about rank %d of %d", m.rank, size)
	}
	if n := (size + 7) / 8; lists && (len(m.parts[0]) != n || len(m.parts[1]) != n) {
		return fmt.Errorf("lists of ranks in %d and %d bytes, want %d", len(m.parts[0]), len(m.parts[1]), n)
	}
	return nil
}
