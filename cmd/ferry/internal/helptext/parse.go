package helptext

import (
	"regexp"
	"strings"
)

// Kind says what a part of a text is.
type Kind int

// The kinds of parts.
const (
	Blank     Kind = iota // an empty line
	Heading               // a line such as "flags:", without the colon
	Usage                 // the command lines of a command, without "usage: "
	Paragraph             // words
	Item                  // an item of a list
	Exact                 // a line that stays as it is
)

// Part is a part of a text.
type Part struct {
	Kind Kind
	Name string // of an item; spaces before it are kept
	Text string
}

var (
	heading = regexp.MustCompile(`^[a-z, ]+( TOPIC)?:$`)
	item    = regexp.MustCompile(`^  (.*\S)  +(\S.*)$`)
)

const usage = "usage: "

// examples is the heading below which nothing is an item.
const examples = "examples"

// Parse reads a text.
func Parse(text string) (parts []Part) {
	column, exact := 0, false // where the text of the last item begins; in a section of examples
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		last := &Part{}
		if len(parts) > 0 {
			last = &parts[len(parts)-1]
		}
		words := strings.TrimLeft(line, " ")
		indent := len(line) - len(words)
		named := item.FindStringSubmatchIndex(line)
		switch {
		case words == "":
			parts = append(parts, Part{Kind: Blank})
		case heading.MatchString(line) && last.Kind == Blank:
			parts = append(parts, Part{Kind: Heading, Text: strings.TrimSuffix(line, ":")})
			exact = parts[len(parts)-1].Text == examples
		case strings.HasPrefix(line, usage):
			parts = append(parts, Part{Kind: Usage, Text: line[len(usage):]})
		case last.Kind == Usage && strings.HasPrefix(words, "ferry "):
			parts = append(parts, Part{Kind: Usage, Text: words})
		case last.Kind == Usage, indent == 0 && last.Kind == Paragraph, last.Kind == Item && indent == column:
			last.Text += " " + words
		case indent == 0:
			parts = append(parts, Part{Kind: Paragraph, Text: line})
		case named != nil && !exact:
			column = named[4]
			parts = append(parts, Part{Kind: Item, Name: line[2:named[3]], Text: line[named[4]:]})
		default:
			parts = append(parts, Part{Kind: Exact, Text: line})
		}
	}
	return parts
}
