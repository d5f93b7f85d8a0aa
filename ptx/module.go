package ptx

import (
	"strconv"
	"strings"
)

// module parses the whole file.
func (p *parser) module() {
	for p.tok.kind != tokEOF || p.bad {
		switch {
		case p.bad:
			p.sync()
		case p.tok.kind == '{':
			p.strayBlock()
		case p.tok.kind == ';':
			p.next()
		case p.tok.kind == tokDot:
			p.directive()
		default:
			p.strayToken()
		}
	}
	if !p.hasVersion && len(p.errs) == 0 {
		p.report("expected .version: this is not PTX, or it is empty")
	}
	p.resolveForward()
	p.guessAddressSize()
}

// strayBlock skips a block that follows a function header with an error, or that
// belongs to nothing.
func (p *parser) strayBlock() {
	if len(p.errs) == 0 {
		p.report("'{' without a function before it")
	}
	p.skipBraces()
}

// strayToken handles a token that is neither a directive nor within a function.
func (p *parser) strayToken() {
	if p.tok.kind == '}' {
		if len(p.errs) == 0 { // otherwise it may be the rest of a statement with an error
			p.report("'}' without a '{' before it")
		}
		p.next()
		return
	}
	if !p.hasVersion {
		p.fail("expected .version, found %s: this is not PTX", p.tok)
		p.lex.off = len(p.lex.src)
		p.failed = p.tok
		p.failed.off = p.lex.off
		return
	}
	p.fail("expected a directive such as .visible or .global, found %s", p.tok)
}

// directive parses a statement of the module.
func (p *parser) directive() {
	t := p.tok
	if !p.hasVersion && t.text != "version" {
		p.report("expected .version before .%s", t.text)
		p.hasVersion = true
	}
	if p.header(t) {
		return
	}
	if !p.hasTarget {
		p.report("expected .target before .%s", t.text)
		p.hasTarget = true
	}
	link, pos := p.linkage()
	switch space, ok := spaceOf(p.tok.text); {
	case p.tok.kind == tokDot && (p.tok.text == "entry" || p.tok.text == "func"):
		p.function(link)
	case p.tok.kind == tokDot && ok:
		p.moduleVariables(space, link)
	case link != Local:
		p.failAt(token{pos: pos}, "expected .entry, .func or a state space after .%s, found %s", link, p.tok)
	case t.text == "alias":
		p.alias()
	default:
		p.fail("unknown directive .%s%s", t.text, dotHint(t.text, moduleDirectives))
	}
}

var moduleDirectives = []string{
	"version", "target", "address_size", "file", "loc", "section", "alias", "extern", "visible",
	"weak", "common", "entry", "func", "global", "const", "shared", "tex",
}

// header parses a directive that is neither a function nor a variable. It returns
// false for other directives.
func (p *parser) header(t token) bool {
	switch t.text {
	case "version":
		p.version()
	case "target":
		p.target()
	case "address_size":
		p.next()
		if size := p.plainNumber("the address size", 0, maxRange); size != 32 && size != 64 {
			p.failAt(t, ".address_size must be 32 or 64, not %d", size)
		} else {
			p.m.AddressSize, p.m.AddressPos, p.sized = int(size), t.pos, true
		}
	case "file":
		p.fileDirective()
	case "loc":
		p.loc()
	case "section":
		p.section()
	case "pragma":
		p.pragma()
	default:
		return false
	}
	return true
}

func (p *parser) version() {
	p.next()
	t := p.tok
	if p.hasVersion {
		p.report(".version is given twice")
	}
	p.hasVersion = true
	major, minor, ok := strings.Cut(t.text, ".")
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if t.kind != tokNumber || !ok || err != nil || err2 != nil {
		p.fail("expected a version such as 9.0, found %s", t)
		return
	}
	if a < 1 || a > 9 {
		p.report("PTX version %s is not supported: 1.0 to 9.x are", t.text)
	}
	p.m.Version = Version{a, b}
	p.next()
}

func (p *parser) target() {
	p.next()
	p.hasTarget = true
	for {
		name, _ := p.name("a target such as sm_75")
		if p.bad {
			return
		}
		p.m.Target = append(p.m.Target, name)
		if !p.accept(',') {
			return
		}
	}
}

func (p *parser) linkage() (Linkage, Pos) {
	link, pos := Local, p.tok.pos
	for p.tok.kind == tokDot {
		l, ok := linkageOf(p.tok.text)
		if !ok {
			break
		}
		if link != Local {
			p.fail(".%s after .%s: one linkage directive is allowed", l, link)
			break
		}
		link = l
		p.next()
	}
	return link, pos
}

// fileDirective parses .file number "name", with an optional time and size.
func (p *parser) fileDirective() {
	p.next()
	number := int(p.integerConstant("a file's number", 0, maxRange))
	t := p.tok
	if t.kind != tokString {
		p.fail("expected a file's name in quotes, found %s", t)
		return
	}
	p.next()
	for range 2 {
		if p.accept(',') {
			p.expression()
		}
	}
	put(&p.m.Files, number, t.text)
}

// loc parses .loc file line column, with an optional , function_name label+n,
// inlined_at file line column.
func (p *parser) loc() {
	p.next()
	p.at = p.locNumbers()
	for p.accept(',') {
		word, _ := p.name("function_name or inlined_at")
		switch word {
		case "function_name":
			p.name("a label")
			if p.accept('+') {
				p.expression()
			}
		case "inlined_at":
			p.locNumbers()
		default:
			p.fail("expected function_name or inlined_at in .loc, found %s", word)
		}
	}
}

// locNumbers parses the number of a file, a line and a column.
func (p *parser) locNumbers() (l Loc) {
	for _, n := range []*int{&l.File, &l.Line, &l.Column} {
		if p.tok.kind != tokNumber {
			p.fail("expected file, line and column after .loc, found %s", p.tok)
		}
		*n, _ = strconv.Atoi(p.tok.text) // a number that is not decimal counts as 0
		p.next()
	}
	return l
}

// section parses .section name { anything }.
func (p *parser) section() {
	p.next()
	if p.tok.kind != tokDot && p.tok.kind != tokName && p.tok.kind != tokString {
		p.fail("expected a section's name, found %s", p.tok)
	}
	p.next()
	if p.tok.kind == '{' {
		p.skipBraces()
	}
}

// skipBraces skips a block with any content.
func (p *parser) skipBraces() {
	open := p.tok
	p.quiet = true
	for level := 0; ; p.next() {
		switch p.tok.kind {
		case '{':
			level++
		case '}':
			level--
		case tokEOF:
			p.quiet = false
			p.failAt(open, "'{' without a '}' after it")
			return
		}
		if level == 0 {
			break
		}
	}
	p.quiet = false
	p.next()
}

// pragma parses .pragma "text", ...;
func (p *parser) pragma() {
	p.next()
	p.pragmaStrings()
	p.semicolon(".pragma")
}

func (p *parser) pragmaStrings() {
	for {
		if p.tok.kind != tokString {
			p.fail("expected a string after .pragma, found %s", p.tok)
			return
		}
		p.next()
		if !p.accept(',') {
			return
		}
	}
}

// alias parses .alias name, function;
func (p *parser) alias() {
	p.next()
	name, pos := p.name("the name of a function")
	p.expect(',', "between the alias and the function")
	target, _ := p.name("the name of a function")
	p.semicolon(".alias")
	if p.bad {
		return
	}
	if old, ok := p.m.Aliases[name]; ok {
		p.reportAt(pos, "%s is already an alias of %s", name, old)
		return
	}
	put(&p.m.Aliases, name, target)
	p.forward = append(p.forward, reference{name: target, pos: pos, alias: name})
}
