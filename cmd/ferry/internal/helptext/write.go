package helptext

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/internal/layout"
)

// Page returns a text for the columns of a terminal.
func Page(parts []Part) *layout.Page {
	p := new(layout.Page)
	var list *layout.Table
	for i, part := range parts {
		if part.Kind != Item {
			list = nil
		}
		switch part.Kind {
		case Blank:
			p.Line("")
		case Heading:
			p.Line(part.Text + ":")
		case Usage:
			start := usage
			if i > 0 && parts[i-1].Kind == Usage {
				start = strings.Repeat(" ", len(usage))
			}
			p.Draw(func(columns int) string { return usageLine(start+part.Text, columns) })
		case Item:
			if list == nil {
				list = &layout.Table{Columns: []layout.Column{{}, {Words: true}}, Indent: 2}
				p.Table(list)
			}
			list.Row(part.Name, part.Text)
		case Exact:
			p.Exact(part.Text + "\n")
		default:
			p.Line(part.Text)
		}
	}
	return p
}

// glue stands for a space between words that stay on one line.
const glue = "\x00"

// usageLine folds a command line. What stands in brackets stays together.
func usageLine(text string, columns int) string {
	p := new(layout.Page)
	p.Hang(len(usage)+len("ferry "), glued(text))
	return strings.ReplaceAll(p.Text(columns), glue, " ")
}

// glued replaces the spaces within brackets.
func glued(text string) string {
	var b strings.Builder
	depth := 0
	for _, r := range text {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ' ' && depth > 0:
			b.WriteString(glue)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Roff returns a text as the body of a manual page. Parts before the first heading are in the
// section DESCRIPTION, command lines in SYNOPSIS.
func Roff(parts []Part) string {
	var b strings.Builder
	section, exact := "", false
	open := func(name string) {
		if section != name {
			fmt.Fprintf(&b, ".SH %s\n", name)
		}
		section = name
	}
	for _, part := range parts {
		if exact && part.Kind != Exact {
			b.WriteString(".fi\n")
			exact = false
		}
		switch part.Kind {
		case Blank:
			continue
		case Heading:
			open(strings.ToUpper(part.Text))
			continue
		case Usage:
			open("SYNOPSIS")
			fmt.Fprintf(&b, ".HP 4\n%s\n", strings.ReplaceAll(Escape(glued(part.Text)), glue, `\ `))
			continue
		}
		if section == "" || section == "SYNOPSIS" {
			open("DESCRIPTION")
		}
		switch part.Kind {
		case Item:
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", Escape(strings.TrimLeft(part.Name, " ")), Escape(part.Text))
		case Exact:
			if !exact {
				b.WriteString(".PP\n.nf\n")
			}
			exact = true
			b.WriteString(Escape(strings.TrimPrefix(part.Text, "  ")) + "\n")
		default:
			fmt.Fprintf(&b, ".PP\n%s\n", Escape(part.Text))
		}
	}
	if exact {
		b.WriteString(".fi\n")
	}
	return b.String()
}

// Escape escapes what roff would take for a command or for a hyphen.
func Escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", "\\(ga", `"`, `\(dq`, `~`, `\(ti`, `^`, `\(ha`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
