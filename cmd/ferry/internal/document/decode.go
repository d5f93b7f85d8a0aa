package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ferrygpu/ferry/internal/inputfile"
	"github.com/ferrygpu/ferry/internal/printable"
)

// Error is a place in a document where it is wrong.
type Error struct {
	File         string
	Line, Column int // both from 1; the column counts bytes
	Text         string
}

// Error returns FILE:LINE:COLUMN and the text.
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", printable.Path(e.File), e.Line, e.Column, printable.Line(e.Text))
}

// Read reads a file and decodes it, as [Decode] does.
func Read(path, schema string, into any) error {
	text, err := inputfile.Read(path, inputfile.Document)
	if err != nil {
		return err
	}
	return Decode(path, text, schema, into)
}

// Decode decodes the text of a file with a schema, such as "ferry.grid/1". Fields that into
// lacks are ignored. Its error is an *[Error] if the text is not JSON, ends too early, or
// has another schema or another type of value. If into has a method Rename, Decode calls it, to
// change names of older versions. Strings stay as they are: [printable.Strings] quotes them for a text.
func Decode(file string, text []byte, schema string, into any) error {
	if bytes.HasPrefix(text, []byte(recording)) {
		return errorAt(file, text, 0, "it is a recording of a program, which ferry trace and ferry explain read; want %s", writer(schema))
	}
	var whole json.RawMessage
	err := json.Unmarshal(text, &whole)
	if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
		return syntaxError(file, text, bad)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", printable.Path(file), err)
	}
	found, at := schemaOf(text)
	switch {
	case found == "":
		return errorAt(file, text, at, "the document has no \"schema\", want %q", schema)
	case found != schema:
		return errorAt(file, text, at, "the schema is %s, want %q%s", printable.Value(found), schema, whose(found, schema))
	}
	err = json.Unmarshal(text, into)
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errorAt(file, text, int(bad.Offset)-1, "%s is %s, want %s", bad.Field, bad.Value, bad.Type)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", printable.Path(file), err)
	}
	if older, ok := into.(interface{ Rename() }); ok {
		older.Rename()
	}
	return nil
}

// syntaxError returns the error of a text that is not JSON.
func syntaxError(file string, text []byte, bad *json.SyntaxError) error {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return errorAt(file, text, len(text), "the file is empty, want a JSON document")
	case strings.HasPrefix(bad.Error(), "unexpected end"):
		return errorAt(file, text, len(text), "the file is truncated: the JSON document does not end")
	}
	return errorAt(file, text, int(bad.Offset)-1, "not JSON: %v", bad)
}

// recording is how the recording of a program begins.
const recording = `{"schema":"ferry.trace/`

// writers are the commands whose documents have a schema, by the schema without its version.
var writers = map[string]string{
	"accuracy": "bench --against --json", "advise": "advise --json", "check": "check --json", "compare": "compare --json",
	"compile": "compile --json", "diff": "diff --json", "doctor": "doctor --json", "explain": "explain --json",
	"families": "bench --against --json", "fit": "profile fit --json", "grid": "bench --json", "info": "info --json",
	"kernel": "info --kernel --json", "kinds": "bench --list --json", "lib": "lib --json", "load": "load --json",
	"overlap": "trace overlap --json", "profile": "profile show --json", "profiles": "profile list --json",
	"run": "run --json", "trace-summary": "trace --json",
}

// writer returns what writes documents with a schema: the command, or the schema itself.
func writer(schema string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(schema, "ferry."), "/")
	if w := writers[name]; w != "" {
		return "a file of ferry " + w
	}
	return fmt.Sprintf("the schema %q", schema)
}

// whose says who wrote a document with another schema than the wanted one, and who writes that.
func whose(found, want string) string {
	a, _, _ := strings.Cut(found, "/")
	b, _, _ := strings.Cut(want, "/")
	switch {
	case a == b:
		return ": another version of Ferry wrote it"
	case writer(found) == fmt.Sprintf("the schema %q", found):
		return ""
	}
	return fmt.Sprintf(": it is %s, want %s", writer(found), writer(want))
}

// schemaOf returns the schema of a document and the offset where it stands. If there is
// none, the schema is "".
func schemaOf(text []byte) (schema string, at int) {
	d := json.NewDecoder(bytes.NewReader(text))
	start := func() int { // of the next token
		i := int(d.InputOffset())
		return i + len(text[i:]) - len(bytes.TrimLeft(text[i:], " \t\r\n,:"))
	}
	at = start()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return "", at
	}
	for d.More() {
		key, _ := d.Token()
		here := start()
		var value json.RawMessage
		if err := d.Decode(&value); err != nil && err != io.EOF {
			return "", at
		}
		if key == "schema" && json.Unmarshal(value, &schema) == nil {
			return schema, here
		}
	}
	return "", at
}

// errorAt returns an error for an offset of a text.
func errorAt(file string, text []byte, offset int, format string, args ...any) error {
	before := text[:min(max(offset, 0), len(text))]
	return &Error{
		File:   file,
		Line:   1 + bytes.Count(before, []byte("\n")),
		Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Text:   fmt.Sprintf(format, args...),
	}
}
