package rendezvous

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ferrygpu/ferry/internal/printable"
)

// protocol is the version of what is said. The first ten bytes of a hello and of a reply, and the
// form of a refusal, are the same in all versions.
const protocol = 1

// magic begins all that is said before two ranks know each other.
const magic = "FERRYRDV"

const (
	nonceBytes = 32
	maxWho     = 128  // bytes of what a process says about itself
	maxRefusal = 1024 // bytes of why rank 0 refuses
)

// What a reply of rank 0 says.
const (
	replyChallenge = 1 + iota
	replyAccept
	replyRefuse
	replyLater // as replyRefuse, but it may be otherwise soon
)

// hello is the first word of a rank to rank 0.
type hello struct {
	version    uint16
	token      bool // the rank has one
	rank, size int
	nonce      [nonceBytes]byte
	who        string // process and machine
}

// wire returns the hello as it is sent.
func (h *hello) wire() []byte {
	who := h.who[:min(len(h.who), maxWho)]
	b := append([]byte(magic), 0, 0, 0)
	binary.BigEndian.PutUint16(b[8:], h.version)
	if h.token {
		b[10] = 1
	}
	b = binary.BigEndian.AppendUint32(b, uint32(h.rank))
	b = binary.BigEndian.AppendUint32(b, uint32(h.size))
	b = append(b, h.nonce[:]...)
	b = append(b, byte(len(who)))
	return append(b, who...)
}

// errStranger is the error of a peer that does not speak this protocol at all.
var errStranger = errors.New("it is no rank of Ferry")

// readVersion reads what all versions have in common.
func readVersion(r io.Reader) (uint16, error) {
	var b [10]byte
	if _, err := io.ReadFull(r, b[:8]); err != nil {
		return 0, err
	}
	if string(b[:8]) != magic {
		return 0, errStranger
	}
	if _, err := io.ReadFull(r, b[8:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint16(b[8:]), nil
}

// readHello reads a hello. Of another version it has the version alone.
func readHello(r io.Reader, version uint16) (*hello, error) {
	h := &hello{}
	var err error
	if h.version, err = readVersion(r); err != nil || h.version != version {
		return h, err
	}
	var b [9 + nonceBytes + 1]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return nil, err
	}
	rank, size := binary.BigEndian.Uint32(b[1:]), binary.BigEndian.Uint32(b[5:])
	who := make([]byte, b[len(b)-1])
	if b[0] > 1 || rank >= maxSize || size > maxSize || len(who) > maxWho {
		return nil, errStranger
	}
	h.token, h.rank, h.size = b[0] == 1, int(rank), int(size)
	copy(h.nonce[:], b[9:])
	if _, err := io.ReadFull(r, who); err != nil {
		return nil, err
	}
	h.who = string(who)
	return h, nil
}

// reply is what rank 0 answers.
type reply struct {
	version uint16
	kind    byte
	token   bool   // of a challenge: rank 0 has one
	proof   []byte // the number of a challenge, the proof of an accept
	text    string // of a refusal
}

// wire returns the reply as it is sent.
func (a *reply) wire() []byte {
	b := append([]byte(magic), 0, 0, a.kind)
	binary.BigEndian.PutUint16(b[8:], a.version)
	switch a.kind {
	case replyChallenge:
		token := byte(0)
		if a.token {
			token = 1
		}
		b = append(append(b, token), a.proof...)
	case replyAccept:
		b = append(b, a.proof...)
	default:
		text := a.text[:min(len(a.text), maxRefusal)]
		b = binary.BigEndian.AppendUint16(b, uint16(len(text)))
		b = append(b, text...)
	}
	return b
}

// readReply reads a reply. One of another version has a text, or the version alone.
func readReply(r io.Reader, version uint16) (*reply, error) {
	a := &reply{}
	var err error
	if a.version, err = readVersion(r); err != nil {
		return nil, err
	}
	var b [1]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return nil, err
	}
	a.kind = b[0]
	switch {
	case a.kind == replyRefuse || a.kind == replyLater:
		a.text, err = readText(r)
	case a.version != version:
		return a, nil
	case a.kind == replyChallenge:
		if _, err = io.ReadFull(r, b[:]); err != nil {
			return nil, err
		}
		a.token = b[0] == 1
		a.proof = make([]byte, nonceBytes)
		_, err = io.ReadFull(r, a.proof)
	case a.kind == replyAccept:
		a.proof = make([]byte, sha256.Size)
		_, err = io.ReadFull(r, a.proof)
	default:
		return nil, errStranger
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// readText reads the text of a refusal.
func readText(r io.Reader) (string, error) {
	var b [2]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return "", err
	}
	n := binary.BigEndian.Uint16(b[:])
	if n > maxRefusal {
		return "", errStranger
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return "", err
	}
	return printable.Line(string(text)), nil
}

// The roles of the two sides. They are part of a proof, so that it cannot be sent back.
const (
	roleRank = "rank to rank 0"
	roleRoot = "rank 0 to rank"
)

// prove returns the proof that a side knows the token. It covers all that was said: the hello with
// version, rank, number of ranks and number of the rank, and the number of rank 0.
func prove(token, role string, h *hello, challenge []byte) []byte {
	m := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(m, "ferry rendezvous, %s\x00", role)
	m.Write(h.wire())
	m.Write(challenge)
	return m.Sum(nil)
}

// newNonce returns a random number that nobody has used before.
func newNonce() (n [nonceBytes]byte) {
	rand.Read(n[:]) // never fails
	return n
}
