package compile

import (
	"regexp"
	"strings"
)

// nvrtcForm matches the first line of a message of NVRTC: file, line, column, severity and
// text. Messages about no place begin with the name of a tool.
var nvrtcForm = regexp.MustCompile(`^(?:(.+?)\((\d+)(?:,\s*(\d+))?\)\s*: |(?:nvrtc|ptxas|nvvm|libnvvm|nvcc)[^:]*: |)` +
	`(catastrophic error|fatal error|internal error|error|warning|remark|note|fatal)(?: #[\d]+(?:-D)?)?\s*: (.*)$`)

// caretForm matches the line below the source.
var caretForm = regexp.MustCompile(`^\s*\^\s*$`)

// endForm matches lines that belong to no message.
var endForm = regexp.MustCompile(`^(Remark: The warnings can be suppressed|\d+ (errors?|warnings?|catastrophic errors?)\b.* detected in the compilation)`)

// parseNVRTC returns the messages of NVRTC. A message is a line with its place, lines that
// continue it, the line of the source, a line with a caret and lines about templates.
func parseNVRTC(log string, u *unit) (all []Diagnostic) {
	lines := texts{unit: u}
	var block []string
	flush := func() {
		if len(block) > 0 {
			all = append(all, parseBlock(block, &lines))
		}
		block = nil
	}
	for text := range strings.Lines(log) {
		text = strings.TrimRight(text, "\r\n")
		switch {
		case nvrtcForm.MatchString(text):
			flush()
			block = []string{text}
		case text == "" || endForm.MatchString(text):
			flush()
		case len(block) > 0:
			block = append(block, text)
		}
	}
	flush()
	return all
}

// parseBlock parses the lines of one message.
func parseBlock(block []string, lines *texts) Diagnostic {
	m := nvrtcForm.FindStringSubmatch(block[0])
	d := Diagnostic{File: m[1], Line: atoi(m[2]), Column: atoi(m[3]), Severity: severity(m[4]), Message: m[5]}
	path := d.File
	if d.File != lines.unit.name && isHeader(d.File) {
		d.File = shownHeader(d.File)
	}
	d.Source = lines.line(d.File, path, d.Line)
	for i := 1; i < len(block); i++ {
		if i+1 < len(block) && caretForm.MatchString(block[i+1]) {
			d.place(block[i], strings.IndexByte(block[i+1], '^'))
			i++
			continue
		}
		d.Message += " " + strings.TrimSpace(block[i])
	}
	if d.Column == 0 {
		d.Column = columnOf(d.Message, d.Source)
	}
	return d
}

// identifierForm matches a message that begins with the name that it is about.
var identifierForm = regexp.MustCompile(`^identifier "(\w+)"`)

// columnOf returns the column of the name that a message is about, or 0 if it does not
// stand once in the line. NVRTC 11 prints no columns.
func columnOf(message, line string) int {
	m := identifierForm.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	found := regexp.MustCompile(`\b`+m[1]+`\b`).FindAllStringIndex(line, 2)
	if len(found) != 1 {
		return 0
	}
	return found[0][0] + 1
}

// place finds the column: shown is the line as NVRTC prints it, with the caret at an
// index. NVRTC indents the line, so the column is that of the same text in the source.
func (d *Diagnostic) place(shown string, caret int) {
	text := strings.TrimSpace(shown)
	if d.Source == "" {
		d.Source = text
	}
	inSource, inShown := strings.Index(d.Source, text), strings.Index(shown, text)
	if text == "" || inSource < 0 || d.Column > 0 {
		return
	}
	if column := caret - inShown + inSource + 1; column >= 1 && column <= len(d.Source)+1 {
		d.Column = column
	}
}
