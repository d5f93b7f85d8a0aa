package compile

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// edited is a file with changes.
type edited struct {
	path, shown string
	original    []byte
	text        []byte
	tries       map[int]int
	launches    []string // the kernels whose launches were left out
	done        []span   // what was left out since the last run of clang
}

// offset returns the place of a line and column.
func (f *edited) offset(line, column int) int {
	at := 0
	for ; line > 1; line-- {
		n := bytes.IndexByte(f.text[at:], '\n')
		if n < 0 {
			return len(f.text)
		}
		at += n + 1
	}
	return min(at+max(column, 1)-1, len(f.text))
}

// blank blanks a part, and reports whether there was something. Of launches in it with template
// arguments the kernels stay, so that they are compiled. form is what a kernel becomes.
func (f *edited) blank(text []byte, s span, form string) bool {
	s.to = min(s.to, len(text))
	if len(bytes.TrimSpace(text[s.from:s.to])) == 0 {
		return false
	}
	var kept []string
	for _, k := range launched(text, s) {
		name := string(f.text[k.from:k.to])
		f.launches = append(f.launches, name)
		if strings.Contains(name, "<") && !strings.Contains(name, "\n") {
			kept = append(kept, fmt.Sprintf(form, name, len(f.launches)))
		}
	}
	f.wipe(s)
	f.done = append(f.done, s)
	for at := s.from; at < s.to && len(kept) > 0; {
		end := min(lineEnd(f.text, at), s.to)
		for len(kept) > 0 && len(kept[0]) <= end-at && len(bytes.TrimSpace(f.text[at:end])) == 0 {
			at += copy(f.text[at:end], kept[0])
			kept = kept[1:]
		}
		at = end + 1
	}
	return true
}

// What a kernel becomes whose launch is left out: in a function, and in a namespace.
const (
	inFunction  = "(void)(%[1]s);"
	inNamespace = "static void ferry_%[2]d(){(void)(%[1]s);}"
)

// wipe blanks all but directives.
func (f *edited) wipe(s span) {
	_, directives := outlineAll(f.text)
	for _, d := range directives {
		if d.from >= s.from && d.from < s.to {
			wipe(f.text, span{s.from, d.from})
			s.from = d.to
		}
	}
	wipe(f.text, s)
}

// condition makes a condition false.
func (f *edited) condition(text []byte, p piece) bool {
	zero := "0"
	if word(text, p.from, p.to) == "for" {
		zero = ";0;"
	}
	if p.head.to-p.head.from < len(zero) || string(bytes.TrimSpace(f.text[p.head.from:p.head.to])) == zero {
		return f.blank(text, p.span, inFunction)
	}
	f.wipe(p.head)
	copy(f.text[p.head.from:], zero)
	// Of "if constexpr (0)" clang compiles nothing, and so no kernels that it launches.
	if i := bytes.Index(text[p.from:p.head.from], []byte("constexpr")); i >= 0 {
		f.wipe(span{p.from + i, p.from + i + len("constexpr")})
	}
	return true
}

// launchForm matches the beginning of a launch.
var launchForm = regexp.MustCompile(`((?:\w+::)*\w+(?:<[^;{}]*?>)?)\s*<<<`)

// callForm matches the beginning of a call that launches a kernel, up to the kernel's name and the
// bracket of its template arguments.
var callForm = regexp.MustCompile(`\bcudaLaunch(?:(?:Cooperative)?Kernel\s*\(|KernelExC?\s*\([^,;{}]*,)[\s(&]*(?:(?:const\s+)?void\s*(?:const\s*)?\*\s*>?[\s)(&]*|\w+_cast<[\w\s]*\*\s*>[\s(&]*)?((?:\w+::)*\w+)<`)

// launched returns where the names of kernels stand that a part launches: all of <<<>>>, and of calls
// those of templates with their arguments. Others are no kernels by name.
func launched(text []byte, s span) (all []span) {
	part := text[s.from:s.to]
	for _, m := range launchForm.FindAllSubmatchIndex(part, -1) {
		all = append(all, span{s.from + m[2], s.from + m[3]})
	}
	for _, m := range callForm.FindAllSubmatchIndex(part, -1) {
		all = append(all, span{s.from + m[2], skipAngle(text, s.from+m[3], s.to)})
	}
	return all
}

// statement leaves out a statement. Of a launch, the configuration goes first.
func (f *edited) statement(text []byte, p piece, at int) bool {
	s := p.span
	if s.to > s.from && text[s.to-1] == ';' {
		s.to--
	}
	if m := launchForm.FindIndex(text[s.from:s.to]); m != nil {
		open := s.from + m[1]
		end := open + bytes.Index(text[open:s.to], []byte(">>>"))
		if at >= open && at < end && end-open >= 3 && string(bytes.TrimSpace(text[open:end])) != "1,1" {
			f.wipe(span{open, end})
			copy(f.text[open:], "1,1")
			return true
		}
	}
	return f.blank(text, s, inFunction)
}

// insert inserts words into a line.
func (f *edited) insert(at int, words string) {
	f.text = slices.Concat(f.text[:at], []byte(words), f.text[at:])
	for i := range f.done {
		if f.done[i].from >= at {
			f.done[i].from += len(words)
		}
		if f.done[i].to > at {
			f.done[i].to += len(words)
		}
	}
}
