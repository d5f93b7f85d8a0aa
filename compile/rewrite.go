package compile

import (
	"bytes"
	"regexp"
)

// rewrites are forms that nvcc accepts and clang does not, also in device code, by the message
// of clang. Each function changes the form at a place to one with the same meaning, and reports
// whether it did.
var rewrites = []struct {
	message *regexp.Regexp
	rewrite func(f *edited, text []byte, at int) bool
}{
	{regexp.MustCompile(`^__(host|device|host__ __device)__ function '.*' cannot overload __(host|device|host__ __device)__ function`), (*edited).bothSides},
	{regexp.MustCompile(`^(an attribute list cannot appear here|'alignas' attribute cannot be applied to types)`), (*edited).alignasFirst},
	{regexp.MustCompile(`^string literal with user-defined suffix cannot be used here`), (*edited).suffix},
	{regexp.MustCompile(`^expected '\)'`), (*edited).operand},
}

// rewriteFor returns the function for a message, or nil.
func rewriteFor(message string) func(f *edited, text []byte, at int) bool {
	for _, r := range rewrites {
		if r.message.MatchString(message) {
			return r.rewrite
		}
	}
	return nil
}

var externForm = regexp.MustCompile(`^extern\s*"[^"]*"\s*`)

// bothSides makes the function that is declared at a place one for the host and the device.
// nvcc takes what the first declaration of a function says for the others too.
func (f *edited) bothSides(text []byte, at int) bool {
	pieces := around(text, at)
	if len(pieces) == 0 {
		return false
	}
	p := pieces[len(pieces)-1]
	from := skipTemplate(text, p.from, p.to)
	from += len(externForm.Find(text[from:p.to]))
	if bytes.Contains(text[from:p.head.to], []byte("__host__ __device__")) {
		return false
	}
	f.insert(from, "__host__ __device__ ")
	return true
}

// alignasFirst moves alignas(...) to the beginning of a declaration.
func (f *edited) alignasFirst(text []byte, at int) bool {
	pieces := around(text, at)
	if len(pieces) == 0 || !bytes.HasPrefix(text[at:], []byte("alignas")) {
		return false
	}
	p := pieces[len(pieces)-1]
	end := closing(text, at, p.to)
	if end == p.to {
		return false
	}
	from := skipTemplate(text, p.from, p.to)
	words := string(f.text[at:end+1]) + " "
	wipe(f.text, span{at, end + 1})
	f.insert(from, words)
	return true
}

// suffix separates a text and the macro behind it, as in extern "C"__global__.
func (f *edited) suffix(text []byte, at int) bool {
	if at == 0 || text[at-1] != '"' {
		return false
	}
	f.insert(at, " ")
	return true
}

// operand separates two operands of an assembly statement, as in "r"(a) "l"(b).
func (f *edited) operand(text []byte, at int) bool {
	if at >= len(text) || text[at] != '"' || !bytes.HasSuffix(bytes.TrimSpace(text[:at]), []byte(")")) {
		return false
	}
	f.insert(at, ",")
	return true
}
