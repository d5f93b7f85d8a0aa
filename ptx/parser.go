package ptx

import (
	"fmt"
	"slices"
	"strings"
)

// Parse parses a PTX text. The file name is for messages only. NUL bytes at the end,
// as in PTX embedded in programs, are ignored.
//
// A text without .address_size counts as 64-bit if a 64-bit register holds an
// address, or if no register does. Otherwise it counts as 32-bit.
//
// The error is an [*Error] or, for several problems, an [ErrorList]. The module is
// then nil. Parse is safe for concurrent use.
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

// parser parses one module. After a syntax error (bad) every token is the end of the
// file until sync is called, so that the functions in progress return.
type parser struct {
	lex     lexer
	tok     token // the current token; lex.off is after it
	lastEnd Pos   // end of the token before it
	bad     bool
	failed  token // where bad was set
	quiet   bool  // tokBad is not an error, because the text is skipped
	errs    []*Error
	depth   int

	m          *Module
	ops        map[string]opcode
	forward    []reference // names that the module may declare later
	lostName   bool        // a declaration of the module could not be parsed
	sized      bool        // the source has .address_size
	addresses  [2]bool     // 32-bit and 64-bit registers hold addresses
	items      int         // instructions and addresses in initialisers
	hasVersion bool
	hasTarget  bool

	// state of the function being parsed
	f               *Func
	at              Loc // the last .loc
	scope           *scope
	levels          int
	renamed         int
	missing         map[string]bool // names already reported
	lostDeclaration bool            // a declaration could not be parsed, so undeclared names are not reported
	instrs          body            // of its body
	jumps           []reference     // to labels, or to what the module declares later
	arg             int             // index of the operand being parsed; -1 within another operand
	argPos          [4]Pos          // places of the first operands
	stack           []Operand       // operands being parsed
	slab            []Operand       // memory that operand slices are taken from
}

// next moves to the next token.
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

// accept skips the current token if it is of kind k. It reports whether it did.
func (p *parser) accept(k kind) bool {
	if p.tok.kind != k {
		return false
	}
	p.next()
	return true
}

// expect skips a punctuation character, which must be there.
func (p *parser) expect(k kind, where string) {
	if !p.accept(k) {
		p.fail("expected '%c' %s, found %s", rune(k), where, p.tok)
	}
}

// name skips a name and returns it.
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

// failAt reports a syntax error. Parsing continues after the statement (see sync).
func (p *parser) failAt(t token, format string, args ...any) {
	if p.bad {
		return
	}
	p.reportAt(t.pos, format, args...)
	p.bad, p.failed = true, p.tok
	p.tok.kind, p.tok.text = tokEOF, ""
}

// report reports a problem at the current token that does not affect the parse.
func (p *parser) report(format string, args ...any) { p.reportAt(p.tok.pos, format, args...) }

func (p *parser) reportAt(pos Pos, format string, args ...any) {
	if p.bad || len(p.errs) >= maxErrors {
		return
	}
	msg := fmt.Sprintf(format, args...)
	if len(msg) > maxMessage {
		msg = strings.ToValidUTF8(msg[:maxMessage], "") + "..."
	}
	p.errs = append(p.errs, &Error{
		File: p.m.File, Pos: pos, Msg: msg, Line: strings.Clone(p.sourceLine(pos)), // not the whole text
	})
	if len(p.errs) == maxErrors {
		p.lex.off = len(p.lex.src) // maxErrors is reached: the next token is the end of the file
	}
}

// sourceLine returns the text of the line of pos, which is the current line or an
// earlier one.
func (p *parser) sourceLine(pos Pos) string {
	start, line := p.lex.lineStart, p.lex.line
	for line > pos.Line && start > 0 {
		start = strings.LastIndexByte(p.lex.src[:start-1], '\n') + 1
		line--
	}
	return lineAt(p.lex.src, start)
}

// sync ends a syntax error. It skips to after the next semicolon or to a brace.
// Outside of functions it also stops at a directive at the start of a line.
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

// semicolon ends a statement. If the semicolon is missing at the end of a line,
// parsing continues.
func (p *parser) semicolon(what string) {
	switch {
	case p.accept(';') || p.bad:
	case p.tok.pos.Line > p.lastEnd.Line:
		p.reportAt(p.lastEnd, "expected ';' after %s", what)
	default:
		p.fail("expected ',' or ';' after %s, found %s", what, p.tok)
	}
}
