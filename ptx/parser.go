package ptx

import (
	"fmt"
	"slices"
	"strings"
)

// Parse reads a PTX text. The file name is for messages only. NUL bytes at the
// end, as in PTX embedded in programs, are ignored.
//
// A text without .address_size counts as 64-bit if any address in it is held in a
// 64-bit register, or if there is no address to tell from; else as 32-bit.
//
// The error is an [*Error] or, for several problems, an [ErrorList]; the module is
// then nil. Safe for concurrent use.
func Parse(file, source string) (*Module, error) {
	source = strings.TrimRight(source, "\x00")
	p := &parser{
		lex: lexer{src: source, line: 1},
		ops: make(map[string]opcode),
		m: &Module{
			File:   file,
			Source: source,
			vars:   make(map[string]*Var),
			funcs:  make(map[string]*Func),
		},
	}
	if strings.HasPrefix(source, "\ufeff") {
		p.lex.off = len("\ufeff")
	}
	p.next()
	p.module()
	if err := asError(p.errs); err != nil {
		return nil, err
	}
	return p.m, nil
}

// parser reads one module. After a syntax error (bad) every token is the end of
// the file until sync, so that what is under way ends by itself.
type parser struct {
	lex     lexer
	tok     token // the current one; lex.off is behind it
	lastEnd Pos   // behind the token before it
	bad     bool
	failed  token // where bad began
	quiet   bool  // tokBad is no error: the text is being skipped
	errs    []*Error
	depth   int

	m          *Module
	ops        map[string]opcode
	forward    []reference // names that the module may declare later
	lostName   bool        // a declaration of the module was not understood
	sized      bool        // .address_size was given
	addresses  [2]bool     // 32-bit and 64-bit registers hold addresses
	hasVersion bool
	hasTarget  bool

	// of the function being read
	f               *Func
	at              Loc // by the last .loc
	scope           *scope
	levels          int
	renamed         int
	missing         map[string]bool // reported already
	lostDeclaration bool            // one was not understood: do not complain of names
	jumps           []reference     // to labels, or to what the module declares later
	arg             int             // index of the operand being read; -1 within another
	argPos          [4]Pos          // of the first operands
	stack           []Operand       // operands under way
	slab            []Operand       // where operand slices are cut from
}

// next moves on by a token.
func (p *parser) next() {
	if p.bad {
		return
	}
	p.lastEnd = Pos{p.tok.pos.Line, p.tok.pos.Col + p.tok.end - p.tok.off}
	p.tok = p.lex.scan()
	if p.tok.kind == tokBad && !p.quiet {
		p.fail("%s", p.tok.text)
	}
}

// accept passes the current token if it is of that kind.
func (p *parser) accept(k kind) bool {
	if p.tok.kind != k {
		return false
	}
	p.next()
	return true
}

// expect passes a punctuation character that must be there.
func (p *parser) expect(k kind, where string) {
	if !p.accept(k) {
		p.fail("expected '%c' %s, found %s", rune(k), where, p.tok)
	}
}

// name passes a name and returns it.
func (p *parser) name(what string) (string, Pos) {
	t := p.tok
	if t.kind != tokName {
		p.fail("expected %s, found %s", what, t)
		return "", t.pos
	}
	p.next()
	return t.text, t.pos
}

// fail reports a syntax error at the current token.
func (p *parser) fail(format string, args ...any) { p.failAt(p.tok, format, args...) }

// failAt reports a syntax error; parsing goes on behind the statement (see sync).
func (p *parser) failAt(t token, format string, args ...any) {
	if p.bad {
		return
	}
	p.reportAt(t.pos, format, args...)
	p.bad, p.failed = true, p.tok
	p.tok.kind, p.tok.text = tokEOF, ""
}

// report reports a problem at the current token that does not disturb the parse.
func (p *parser) report(format string, args ...any) { p.reportAt(p.tok.pos, format, args...) }

func (p *parser) reportAt(pos Pos, format string, args ...any) {
	if p.bad || len(p.errs) >= maxErrors {
		return
	}
	p.errs = append(p.errs, &Error{
		File: p.m.File, Pos: pos, Msg: fmt.Sprintf(format, args...), Line: p.sourceLine(pos),
	})
	if len(p.errs) == maxErrors {
		p.lex.off = len(p.lex.src) // enough: what follows is the end of the file
	}
}

// sourceLine is the text of a line at or before the current one.
func (p *parser) sourceLine(pos Pos) string {
	start, line := p.lex.lineStart, p.lex.line
	for line > pos.Line && start > 0 {
		start = strings.LastIndexByte(p.lex.src[:start-1], '\n') + 1
		line--
	}
	return lineAt(p.lex.src, start)
}

// sync ends a syntax error: it skips to behind the next semicolon or to a brace;
// outside of functions, to a directive at the start of a line too.
func (p *parser) sync() {
	if !p.bad {
		return
	}
	p.bad, p.quiet = false, true
	if len(p.errs) < maxErrors {
		p.lex.back(p.failed)
	}
	p.next()
	for p.tok.kind != tokEOF && p.tok.kind != '{' && p.tok.kind != '}' && p.tok.kind != ';' {
		p.next()
		if p.f == nil && p.tok.kind == tokDot && p.tok.pos.Line > p.lastEnd.Line && slices.Contains(moduleDirectives, p.tok.text) {
			break
		}
	}
	p.quiet = false
	p.accept(';')
}

// semicolon ends a statement. Where it was forgotten at the end of a line, parsing goes on.
func (p *parser) semicolon(what string) {
	switch {
	case p.accept(';') || p.bad:
	case p.tok.pos.Line > p.lastEnd.Line:
		p.reportAt(p.lastEnd, "expected ';' behind %s", what)
	default:
		p.fail("expected ',' or ';' behind %s, found %s", what, p.tok)
	}
}
