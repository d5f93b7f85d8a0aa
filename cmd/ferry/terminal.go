package main

import (
	"io"
	"os"
	"strconv"
)

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, ok = terminalWidth(f)
	return ok
}

// colour reports whether output to w may be coloured: w is a terminal with colours,
// and NO_COLOR is not set.
func colour(w io.Writer) bool {
	term := os.Getenv("TERM")
	return os.Getenv("NO_COLOR") == "" && term != "" && term != "dumb" && isTerminal(w)
}

// columns returns the columns of w if it is a terminal, else 0. COLUMNS overrides what the
// terminal says.
func columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	n, ok := terminalWidth(f)
	if set, err := strconv.Atoi(os.Getenv("COLUMNS")); ok && err == nil && set > 0 {
		return set
	}
	return n
}
