package bind

import (
	"bytes"
	"fmt"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/internal/inputfile"
)

// formatVersion counts the forms of the generated code. A file of another form is stale.
const formatVersion = 4

// stamp is what a generated file records of its origin, in comments that begin with
// //ferry: and that Check reads.
type stamp struct {
	version int
	options string
	sources []hashed // the source first
	ptx     hashed
	kernels []signature
	structs []signature
	sum     string // of the other lines of the file
}

// signature is a kernel with its parameters, or a structure with its fields.
type signature struct {
	name  string
	parts []part
}

// part is a parameter or a field: its name and its type in C.
type part struct{ name, typ string }

// signature returns the name in C and the parameters.
func (k *kernel) signature() signature {
	s := signature{name: k.c}
	for _, p := range k.params {
		s.parts = append(s.parts, part{p.name, p.ctype.String()})
	}
	return s
}

// signature returns the name in C and the fields, with their types and offsets.
func (t *goStruct) signature() signature {
	s := signature{name: t.c}
	for _, f := range t.fields {
		if f.c != "" {
			s.parts = append(s.parts, part{f.c, fmt.Sprintf("%s at byte %d", f.ctype, f.offset)})
		}
	}
	s.parts = append(s.parts, part{"the size", strconv.Itoa(t.size) + " bytes"})
	return s
}

const stampMark = "//ferry:"

// String returns the comments.
func (s *stamp) String() string {
	var b strings.Builder
	line := func(words ...string) {
		b.WriteString(stampMark + words[0])
		for _, w := range words[1:] {
			b.WriteString(" " + strconv.Quote(w))
		}
		b.WriteByte('\n')
	}
	line("version", strconv.Itoa(s.version))
	line("options", s.options)
	for _, f := range s.sources {
		line("source", f.name, f.sum)
	}
	line("ptx", s.ptx.name, s.ptx.sum)
	for kind, all := range [][]signature{s.kernels, s.structs} {
		for _, sig := range all {
			words := []string{[]string{"kernel", "struct"}[kind], sig.name}
			for _, p := range sig.parts {
				words = append(words, p.name, p.typ)
			}
			line(words...)
		}
	}
	return b.String()
}

// readStamp reads the comments of a generated file. ok is false if it has none.
func readStamp(code []byte) (s *stamp, ok bool) {
	s = &stamp{}
	for line := range strings.Lines(string(code)) {
		rest, found := strings.CutPrefix(line, stampMark)
		if !found {
			continue
		}
		key, words := readWords(strings.TrimSpace(rest))
		if len(words) == 0 {
			continue
		}
		switch key {
		case "version":
			s.version, _ = strconv.Atoi(words[0])
		case "options":
			s.options = words[0]
		case "sum":
			s.sum = words[0]
		case "source", "ptx":
			s.addFile(key, words)
		case "kernel":
			s.kernels = append(s.kernels, readSignature(words))
		case "struct":
			s.structs = append(s.structs, readSignature(words))
		}
	}
	return s, s.version != 0
}

// readWords reads a line: a word, and quoted words.
func readWords(line string) (key string, words []string) {
	key, rest, _ := strings.Cut(line, " ")
	for {
		rest = strings.TrimLeft(rest, " ")
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return key, words
		}
		w, err := strconv.Unquote(quoted)
		if err != nil {
			return key, words
		}
		words, rest = append(words, w), rest[len(quoted):]
	}
}

func (s *stamp) addFile(key string, words []string) {
	if len(words) < 2 {
		return
	}
	if f := (hashed{words[0], words[1]}); key == "ptx" {
		s.ptx = f
	} else {
		s.sources = append(s.sources, f)
	}
}

func readSignature(words []string) signature {
	s := signature{name: words[0]}
	for i := 1; i+1 < len(words); i += 2 {
		s.parts = append(s.parts, part{words[i], words[i+1]})
	}
	return s
}

// seal adds the line with the hash of all other lines.
func seal(code []byte) []byte {
	return fmt.Appendf(code, "%ssum %q\n", stampMark, hash(code))
}

// unseal returns the file without the last line, and the hash that line has.
func unseal(code []byte) (rest []byte, sum string) {
	code = bytes.ReplaceAll(code, []byte("\r\n"), []byte("\n"))
	i := bytes.LastIndex(code, []byte(stampMark+"sum "))
	if i < 0 {
		return code, ""
	}
	_, words := readWords(strings.TrimSpace(string(code[i+len(stampMark):])))
	if len(words) == 1 {
		sum = words[0]
	}
	return code[:i], sum
}

// packageOf returns the package of the Go files in a folder, or "". It leaves out one file,
// and tests.
func packageOf(dir, except string) string {
	names, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, name := range names {
		if filepath.Base(name) == filepath.Base(except) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := inputfile.Read(name, inputfile.Source)
		if err != nil {
			continue
		}
		if f, err := parser.ParseFile(gotoken.NewFileSet(), name, text, parser.PackageClauseOnly); err == nil {
			return f.Name.Name
		}
	}
	return ""
}
