package printable

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"":     "",
		"a b~": "a b~",
		"größer 速い \u00a0\u3000 😀 e\u0301 שלום": "größer 速い \u00a0\u3000 😀 e\u0301 שלום",
		"\x1b[31mred\x1b[0m":           `\x1b[31mred\x1b[0m`,
		"\x1b]0;title\x07":             `\x1b]0;title\x07`,
		"\r\b\x7f\x00":                 `\r\x08\x7f\x00`,
		"\u009b31m":                    `\u009b31m`,
		"a\u202eb\u2066c\u200fd\u061c": `a\u202eb\u2066c\u200fd\u061c`,
		"\u2028\ufeff\u00ad":           `\u2028\ufeff\u00ad`,
		"\xff\xc3 \xf0\x9f\x98 \xe2":   `\xff\xc3 \xf0\x9f\x98 \xe2`,
		"\xed\xa0\x80":                 `\xed\xa0\x80`,
		"\U000e0041\U0010ffff":         `\U000e0041\U0010ffff`,
		"\ufffd":                       "\ufffd",
		`C:\new\x1b`:                   `C:\new\x1b`,
	} {
		if got := Line(in); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
		if got := Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Line("a\n\tb"); got != `a\n\tb` {
		t.Errorf("Line keeps a line feed: %q", got)
	}
	if got := Text("a\n\tb\r\n"); got != "a\n\tb\\r\n" {
		t.Errorf("Text: %q", got)
	}
}

// TestEveryRune: what is not a letter, mark, number, sign or space never stays, and quoted text
// stays when it is quoted again.
func TestEveryRune(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xd800 && r < 0xe000 {
			continue
		}
		s := string(r)
		got := Line(s)
		control := r < ' ' || r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.C, r)
		if control == (got == s) && (control || unicode.IsPrint(r)) {
			t.Fatalf("%U: %q", r, got)
		}
		if Line(got) != got || strings.ContainsFunc(got, unicode.IsControl) {
			t.Fatalf("%U: %q is quoted again to %q", r, got, Line(got))
		}
	}
}

func TestValue(t *testing.T) {
	if got := Value("a\"\x1b"); got != `"a\"\x1b"` {
		t.Errorf("got %s", got)
	}
	if got, want := Value(strings.Repeat("é", 1000)), `"`+strings.Repeat("é", 80)+`"... (2000 bytes)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := Name(strings.Repeat("\x1b", 1000)), strings.Repeat(`\x1b`, 160)+"... (1000 bytes)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if s := strings.Repeat("é", 80); Value(s) != `"`+s+`"` || Name(s) != s {
		t.Errorf("80 letters: %s", Value(s))
	}
}

// FuzzQuote: the results have only letters that stay, and a document keeps its value.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"\x1b[2J", "a\u202eb", "\xff", "\u009b", "\U000e0041", "\x9b31m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, got := range []string{Line(s), Text(s)} {
			if !Is(got) || !utf8.ValidString(got) {
				t.Fatalf("%q became %q", s, got)
			}
		}
		doc, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		var before, after map[string]string
		got := JSON(doc)
		if err := json.Unmarshal(got, &after); err != nil || !Is(string(got)) {
			t.Fatalf("%q became %q: %v", doc, got, err)
		}
		if raw := string(JSON([]byte(`"` + s + `"`))); !Is(strings.ReplaceAll(raw, "\r", "")) || !utf8.ValidString(raw) {
			t.Fatalf("the document \"%q\" became %q", s, raw)
		}
		_ = json.Unmarshal(doc, &before)
		for k, v := range before {
			if after[k] != v {
				t.Fatalf("%q became %q", before, after)
			}
		}
	})
}

// TestStrings: every string that can be reached is quoted, wherever it stands.
func TestStrings(t *testing.T) {
	type inner struct{ Text string }
	type outer struct {
		Name    string
		List    []inner
		Array   [2]string
		ByID    map[int]inner
		ByName  map[string]string
		Pointer *inner
		None    *inner
		Any     any
		Numbers []byte
		hidden  string
	}
	const bad, good = "\x1b\n", `\x1b\n`
	v := outer{bad, []inner{{bad}}, [2]string{"", bad}, map[int]inner{1: {bad}}, map[string]string{"k": bad}, &inner{bad}, nil, []any{bad, inner{bad}}, []byte(bad), bad}
	Strings(&v)
	want := outer{good, []inner{{good}}, [2]string{"", good}, map[int]inner{1: {good}}, map[string]string{"k": good}, &inner{good}, nil, []any{good, inner{good}}, []byte(bad), bad}
	if !reflect.DeepEqual(v, want) {
		t.Errorf("got %+v, want %+v", v, want)
	}
}

// TestPath: a path that a system can open is whole. A longer text is cut.
func TestPath(t *testing.T) {
	long := strings.Repeat("/dir é", 4000/7)
	if got := Path(long); got != long {
		t.Errorf("got %q", got)
	}
	if got, want := Path("a\n"+long), `a\n`+long; got != want {
		t.Errorf("got %q", got)
	}
	if got := Path(strings.Repeat("/", 4097)); got != strings.Repeat("/", 160)+"... (4097 bytes)" {
		t.Errorf("got %q", got)
	}
}

// TestError: the text of an error of the system is printable, and the error keeps its path.
func TestError(t *testing.T) {
	const path = "/no/\x1b[2J"
	_, system := os.Open(path)
	err := Error(system)
	if want := `open /no/\x1b[2J: `; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %q, want %q", err, want)
	}
	if e, ok := errors.AsType[*fs.PathError](err); !ok || e.Path != path || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %+v", e)
	}
	if _, system = os.Open("/no/such"); Error(system) != system || Error(nil) != nil {
		t.Errorf("a printable error was changed: %v", Error(system))
	}
}
