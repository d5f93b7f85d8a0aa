// Package hint prints hints for the user of a program to standard error. Each kind of hint
// is printed once per process. FERRY_QUIET=1 in the environment suppresses all of them.
package hint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// QuietVariable is the environment variable that suppresses all hints when it is 1.
const QuietVariable = "FERRY_QUIET"

// Kind is the subject of a hint.
type Kind string

// Fallback is the hint that Open("") has opened the software GPU.
const Fallback Kind = "fallback"

// SlowClose is the hint that a Close waits for the device.
const SlowClose Kind = "slow close"

// LateFree is the hint that memory was not freed after its Close has returned.
const LateFree Kind = "late free"

// out is standard error, except in tests.
var out io.Writer = os.Stderr

var said sync.Map // true by Kind, for kinds that are not to be printed any more

// Say prints a hint, unless a hint of its kind was printed or silenced before.
func Say(kind Kind, format string, args ...any) {
	if _, before := said.LoadOrStore(kind, true); before || Quiet() {
		return
	}
	fmt.Fprintf(out, "ferry: "+format+"\n", args...)
}

// Because returns a colon and why no NVIDIA GPU could be opened, in one line. It returns ""
// where the error says that the machine has no driver: an error with the method Reason
// returns "" then.
func Because(err error) string {
	reason := err.Error()
	var known interface{ Reason() string }
	if errors.As(err, &known) {
		reason = known.Reason()
	}
	if reason == "" {
		return ""
	}
	return ": " + strings.Join(strings.Fields(reason), " ")
}

// Quiet reports whether the environment suppresses all hints.
func Quiet() bool { return os.Getenv(QuietVariable) == "1" }

// Silence suppresses a kind of hint. Commands that print the same information themselves
// call it.
func Silence(kind Kind) { said.Store(kind, true) }
