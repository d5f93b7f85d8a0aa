// Package hint says on standard error what a program did not ask for but should know.
// Each hint is said once a process, and none with FERRY_QUIET=1 in the environment.
package hint

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// QuietVariable is the environment variable that, set to 1, silences all hints.
const QuietVariable = "FERRY_QUIET"

// Kind is a hint's subject.
type Kind string

// Fallback is that Open("") took the software GPU.
const Fallback Kind = "fallback"

// out is standard error, except in tests.
var out io.Writer = os.Stderr

var said sync.Map // of bool by Kind

// Say says a hint, unless one of its kind was said, or silenced, before.
func Say(kind Kind, format string, args ...any) {
	if _, before := said.LoadOrStore(kind, true); before || Quiet() {
		return
	}
	fmt.Fprintf(out, "ferry: "+format+"\n", args...)
}

// Quiet reports whether the environment silences all hints.
func Quiet() bool { return os.Getenv(QuietVariable) == "1" }

// Silence lets a kind of hint be said no more. Commands that say the same in their own
// words call it.
func Silence(kind Kind) { said.Store(kind, true) }
