package document

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/hostile"
)

func TestIndent(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`1`, "1\n"},
		{`{}`, "{}\n"},
		{`{"schema":"x/1"}`, "{\n  \"schema\": \"x/1\"\n}\n"},
		{`{"a":[],"b":{"c":1,"d":[1,"x,]}\"\\",null]}}`,
			"{\n  \"a\": [],\n  \"b\": {\n    \"c\": 1,\n    \"d\": [1, \"x,]}\\\"\\\\\", null]\n  }\n}\n"},
		{`{"p":[{"a":1,"b":true},{"a":2,"b":false}]}`,
			"{\n  \"p\": [\n    {\"a\": 1, \"b\": true},\n    {\"a\": 2, \"b\": false}\n  ]\n}\n"},
	} {
		got, err := Indent([]byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: error %v, got\n%s\nwant\n%s", c.in, err, got, c.want)
		}
	}
	if _, err := Indent([]byte(`{"a":`)); err == nil {
		t.Error("indented a document that does not end")
	}
}

// TestIndentFills expects full lines for a long list of values, and none too long.
func TestIndentFills(t *testing.T) {
	got, err := Indent([]byte(`{"values":[` + strings.Repeat("123456,", 999) + `1]}`))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(got), "\n")
	for _, line := range lines {
		if len(line) > width {
			t.Errorf("a line has %d columns: %s", len(line), line)
		}
	}
	if len(lines) > 90 {
		t.Errorf("%d lines", len(lines))
	}
}

func FuzzIndent(f *testing.F) {
	f.Add([]byte(`{"a":[{"b":[1,2,{"c":null}]},"\"{["],"d":{}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := Indent(in)
		if (err == nil) != json.Valid(in) {
			t.Fatalf("error %v, valid %v", err, json.Valid(in))
		}
		var want, back bytes.Buffer
		if err == nil && (json.Compact(&want, in) != nil || json.Compact(&back, got) != nil || want.String() != back.String()) {
			t.Errorf("got %s, want %s", back.String(), want.String())
		}
	})
}

type grid struct {
	Schema string
	Points []struct{ Kind string }
}

func TestDecode(t *testing.T) {
	const good = "{\n \"other\": {\"schema\": \"no\"},\n \"schema\": \"ferry.grid/1\",\n \"points\": [\n  {\"kind\": \"a\"}\n ]\n}\n"
	var g grid
	if err := Decode("f", []byte(good), "ferry.grid/1", &g); err != nil || len(g.Points) != 1 || g.Points[0].Kind != "a" {
		t.Fatalf("got %+v, %v", g, err)
	}
	for _, c := range []struct{ text, want string }{
		{"", "f:1:1: the file is empty"},
		{" \n\n", "f:3:1: the file is empty"},
		{"ferry bench\n", "f:1:2: not JSON: invalid character 'e'"},
		{good[:50], "f:3:21: the file is truncated"},
		{strings.Replace(good, "\"a\"", "a", 1), "f:5:12: not JSON: invalid character 'a'"},
		{good + "}", "f:8:1: not JSON"},
		{"[1]", "f:1:1: the document has no \"schema\", want \"ferry.grid/1\""},
		{`{"points": []}`, "f:1:1: the document has no \"schema\""},
		{`{"schema": 1}`, "f:1:1: the document has no \"schema\""},
		{strings.Replace(good, "grid/1", "grid/2", 1), "f:3:12: the schema is \"ferry.grid/2\", want \"ferry.grid/1\": another version of Ferry wrote it"},
		{strings.Replace(good, "grid/1", "compare/1", 1), "f:3:12: the schema is \"ferry.compare/1\", want \"ferry.grid/1\""},
		{strings.Replace(good, "\"a\"", "[]", 1), "f:5:"},
	} {
		err := Decode("f", []byte(c.text), "ferry.grid/1", new(grid))
		if _, ok := err.(*Error); !ok || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	if err := Read(path, "x/1", new(grid)); !os.IsNotExist(err) {
		t.Errorf("got %v for a file that does not exist", err)
	}
	if err := os.WriteFile(path, []byte(`{"schema":"x/1"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Read(path, "x/1", new(grid)); err != nil {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"schema":"x/1"}`))
	f.Add([]byte(`{"schema":`))
	f.Fuzz(func(t *testing.T, text []byte) {
		hostile.Check(t, "decode", func() {
			if err := Decode("f", text, "x/1", new(grid)); err == nil && !json.Valid(text) {
				t.Error("decoded what is not JSON")
			}
		})
	})
}

// TestErrorNamesFile: an error names a file with its whole path, as editors read it.
func TestErrorNamesFile(t *testing.T) {
	path := strings.Repeat("/dir", 100) + "/x.json"
	if err := Decode(path, []byte("{"), "x/1", new(struct{})); err == nil || !strings.HasPrefix(err.Error(), path+":1:2: ") {
		t.Errorf("got %v", err)
	}
}
