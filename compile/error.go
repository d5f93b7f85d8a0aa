package compile

// Diagnostic is one message of a compiler about a place in the source.
type Diagnostic struct {
	File         string
	Line, Column int    // from 1; 0 if not known
	Severity     string // "error", "warning" or "note"
	Message      string
	Source       string // the text of the line; empty if not known
}

// Error is the reason why a source does not compile.
type Error struct {
	Compiler    string
	Diagnostics []Diagnostic // at most 20, the errors with their notes
	More        int          // errors that are not in Diagnostics
	Log         string       // what the compiler printed, unchanged
}

func (e *Error) Error() string { return e.Log }

// NotFoundError says that no compiler was found.
type NotFoundError struct {
	Tried []string // places and commands, each with the reason
}

func (e *NotFoundError) Error() string { return "no compiler" }
