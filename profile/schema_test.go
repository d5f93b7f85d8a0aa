package profile

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the schema in the documentation")

const (
	machinesFile = "../docs/softgpu/profiles.md"
	schemaFile   = "../docs/generated/profile.md"
	schemaHead   = `# Fields of a profile

Generated from the comments of package ` + "`profile`" + ` by ` + "`go test ./profile -update`" + `.
[Machines](../softgpu/profiles.md) says how a profile is written.

`
)

// TestSchemaDocumented compares the page of fields with the structs and their comments. The
// page of machines has each machine that ships.
func TestSchemaDocumented(t *testing.T) {
	want := schemaHead + schemaTable(t)
	if *update {
		if err := os.WriteFile(schemaFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("the fields differ from the package; rewrite them with go test ./profile -update\ngot\n%s\nwant\n%s", got, want)
	}
	machines, err := os.ReadFile(machinesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		if !strings.Contains(string(machines), "`"+name+"`") {
			t.Errorf("machine %s is not in %s", name, machinesFile)
		}
	}
}

// schemaTable returns the table of fields in Markdown, with one row per field.
func schemaTable(t *testing.T) string {
	files := token.NewFileSet()
	comments := map[string]string{} // by Type.Field
	for _, name := range []string{"profile.go", "curve.go", "tuning.go"} {
		f, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					for _, id := range field.Names {
						comments[spec.Name.Name+"."+id.Name] = oneLine(field.Doc.Text() + field.Comment.Text())
					}
				}
			}
			return true
		})
	}
	var b strings.Builder
	b.WriteString("| field | is | from, to | what |\n|---|---|---|---|\n")
	schemaRows(&b, reflect.TypeFor[Profile](), "", "", comments)
	return b.String()
}

func schemaRows(b *strings.Builder, t reflect.Type, path, optional string, comments map[string]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, omit, _ := strings.Cut(f.Tag.Get("json"), ",")
		at, optional := join(path, name), optional
		if omit != "" {
			optional = ", may be left out"
		}
		switch {
		case f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[Number]() && f.Type != reflect.TypeFor[Curve]():
			schemaRows(b, f.Type, at, optional, comments)
		default:
			fmt.Fprintf(b, "| `%s` | %s%s | %s | %s |\n", at, schemaKind(f.Type, at), optional, schemaRange(f.Type, at), comments[t.Name()+"."+f.Name])
		}
	}
}

func schemaKind(t reflect.Type, path string) string {
	switch t {
	case reflect.TypeFor[Number]():
		if u := unitOf(path); u != "" {
			return u
		}
		return "number"
	case reflect.TypeFor[Curve]():
		return "curve"
	}
	switch t.Kind() {
	case reflect.Map:
		return "object"
	case reflect.Slice:
		return "list of texts"
	}
	return "text"
}

// schemaRange returns the range of a number.
func schemaRange(t reflect.Type, path string) string {
	switch {
	case t != reflect.TypeFor[Number]():
		return ""
	case path == "host.page_bytes":
		return "4096 or 65536"
	}
	l := limitsOf(path)
	if l.whole {
		return fmt.Sprintf("%.0f to %.0f, whole", l.low, l.high)
	}
	return l.span()
}

func oneLine(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}
