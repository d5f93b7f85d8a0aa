package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrClosed is the error of a session that this rank has closed.
var ErrClosed = errors.New("the session of this rank is closed")

// LostError says that the process of another rank has ended without closing its session, that its
// connection broke, or that it has aborted.
type LostError struct {
	Rank    int    // -1 for rank 0 of all ranks, if it is not among those of a split
	Cause   string // which process it is, and how its connection ended, or why it has aborted
	Aborted bool
}

func (e *LostError) Error() string {
	switch {
	case e.Rank < 0:
		return fmt.Sprintf("rank 0 of all ranks, which connects those of this session, has ended without closing its session (%s)", e.Cause)
	case e.Aborted:
		return fmt.Sprintf("rank %d has aborted (%s)", e.Rank, e.Cause)
	}
	return fmt.Sprintf("rank %d has ended without closing its session (%s)", e.Rank, e.Cause)
}

// LeftError says that another rank has closed its session before it offered a value for a key.
type LeftError struct {
	Rank int
	Key  string
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("rank %d has closed its session before it came to %s", e.Rank, meeting(e.Key))
}

// MissingError says which ranks had not come when a rank no longer waited for them.
type MissingError struct {
	Rank    int // the one that waited
	Key     string
	Came    []int // they wait, or have waited
	Early   []int // those of Came that had given up before
	Missing []int // they have not come at all
	After   time.Duration
	Refused string // what rank 0 has refused meanwhile; "" for nothing
	cause   error
}

// newMissing reads the answer of the hub.
func newMissing(s *Session, m message, cause error, waited time.Duration) *MissingError {
	e := &MissingError{Rank: s.rank, Key: m.key, Early: ranksIn(m.parts[1], s.Size()), After: waited, cause: cause}
	came := ranksIn(m.parts[0], s.Size())
	for r := range s.Size() {
		if slices.Contains(came, r) || slices.Contains(e.Early, r) {
			e.Came = append(e.Came, r)
		} else {
			e.Missing = append(e.Missing, r)
		}
	}
	return e
}

func (e *MissingError) Error() string {
	text := fmt.Sprintf("rank %d waited %v for %s: ", e.Rank, e.After.Round(time.Millisecond), meeting(e.Key))
	if len(e.Missing) > 0 {
		text += fmt.Sprintf("%s came, %s did not", list(e.Came), list(e.Missing))
	} else {
		text += fmt.Sprintf("all came, but %s did not wait so long", list(e.Early))
	}
	if gone, ok := errors.AsType[*LeftError](e.cause); ok {
		text += fmt.Sprintf("; rank %d has given up", gone.Rank)
	}
	if e.Refused != "" {
		text += "; refused were " + e.Refused
	}
	return text
}

// Unwrap returns why the rank no longer waited, such as [context.DeadlineExceeded], or a [LeftError]
// of a rank that gave up before.
func (e *MissingError) Unwrap() error { return e.cause }

// meeting names what ranks come to.
func meeting(key string) string {
	switch key {
	case joinKey:
		return "all ranks to join"
	case splitKey:
		return "all ranks to split"
	}
	return fmt.Sprintf("gather %q", key)
}

// reason returns why a context has ended, so that errors.Is finds the error of the context, too.
func reason(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
