package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// obeyed has what a terminal obeys: a colour, a title, C1 controls, DEL, a carriage return, letters
// from right to left, and a byte that is no UTF-8.
const obeyed = "\x1b[31mred\x1b]0;title\a\u009b2J\x7f\r\b\u202e\u2066\x00\x85"

// quiet fails if an output of the command has what a terminal obeys.
func quiet(ctx context.Context, t *testing.T, what string, args ...string) {
	t.Helper()
	t.Setenv(softgpu.CheckVariable, "") // which "ferry run --check" sets
	var out, errs bytes.Buffer
	run(ctx, args, &out, &errs)
	for name, text := range map[string]string{"output": out.String(), "errors": errs.String()} {
		if !printable.Is(text) {
			at := strings.IndexFunc(text, func(r rune) bool { return !printable.Is(string(r)) })
			t.Errorf("ferry %q with %s: %s have %q", args, what, name, text[max(0, at-60):min(len(text), max(at, 0)+20)])
		}
	}
}

// mutations returns copies of a text of JSON documents, one a line, with obeyed in strings: for
// each path of fields one with it in the first string there, and one with it in all strings.
func mutations(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	paths := map[string]bool{}
	all := mutate(t, text, func(path string) bool { paths[path] = true; return true })
	out := map[string][]byte{"all": all}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		done := false
		out[p] = mutate(t, text, func(path string) bool {
			hit := path == p && !done
			done = done || hit
			return hit
		})
	}
	if len(out) < 5 {
		t.Fatalf("only %d strings in the file", len(out))
	}
	return out
}

// mutate adds obeyed to the strings whose path is chosen. Names of fields have the path "PATH{}".
func mutate(t *testing.T, text []byte, chosen func(path string) bool) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out bytes.Buffer
	for d.More() {
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(mutated(v, "", chosen))
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(b, '\n'))
	}
	return out.Bytes()
}

func mutated(v any, path string, chosen func(string) bool) any {
	switch v := v.(type) {
	case string:
		if chosen(path) {
			return v + obeyed
		}
	case []any:
		for i := range v {
			v[i] = mutated(v[i], path+"[]", chosen)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			x := mutated(v[k], path+"."+k, chosen)
			delete(v, k)
			if (strings.HasSuffix(path, "sources") || strings.HasSuffix(path, "attributes")) && chosen(path+"{}") {
				k += obeyed
			}
			v[k] = x
		}
	}
	return v
}

// TestStrangersDocuments: nothing in a recording, a profile or a result reaches the terminal as an
// escape sequence, whatever command reads it.
func TestStrangersDocuments(t *testing.T) {
	dir := t.TempDir()
	own, err := profile.Text("h200")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "x.json")
	kernels := shipped(t)
	for from, commands := range map[string][][]string{
		"../../trace/testdata/recording.jsonl": {
			{"trace", file}, {"trace", file, "--json"}, {"trace", "--perfetto", "-", file}, {"explain", file}, {"explain", file, "--json"}, {"explain", file + ":4096"},
		},
		"testdata/before.json": {
			{"diff", file, file}, {"diff", file, "testdata/after.json"}, {"diff", "--json", "testdata/before.json", file}, {"bench", "--read", file}, {"bench", "--read", file, "--json"},
			{"bench", "--read", file, "--csv"}, {"bench", "--read", file, "--against", "testdata/after.json"}, {"profile", "fit", file, "--rounds", "1"}, {"profile", "check", file},
		},
		"h200": {
			{"profile", "show", file}, {"profile", "show", file, "--json"}, {"info", "--device", "soft:" + file}, {"info", "--device", "soft:" + file, "--json"},
			{"run", kernels, "--kernel", "vector_add", "--grid", "1", "--block", "32", "in:f32=iota[32]", "in:f32=iota[32]", "out:f32=[32]", "u64=32", "--device", "soft:" + file},
			{"trace", "overlap", "--order", "depth", "--device", "soft:" + file}, {"explain", "copy", "--device", "soft:" + file}, {"explain", "copy", "--device", "soft:" + file, "--json"},
			{"doctor", "--device", "soft:" + file}, {"compare", "--max", "10", "--device", "soft:" + file},
		},
		"testdata/compare-h200.json": {{"diff", file, file}, {"bench", "--read", file}},
	} {
		text := own
		if from != "h200" {
			if text, err = os.ReadFile(from); err != nil {
				t.Fatal(err)
			}
		}
		all := mutations(t, text)
		names := slices.Sorted(maps.Keys(all))
		for _, name := range sample.OfEach(t, names, func(name string) string { return fmt.Sprint(name == "all") }, 6) {
			if err := os.WriteFile(file, all[name], 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range commands {
				quiet(t.Context(), t, from+" "+name, args...)
			}
		}
		t.Logf("%s: %d places", from, len(names))
	}
}

// TestStrangersValues: JSON that a command writes has the strings of the file that it read, with
// escapes, while a text quotes them within its lines.
func TestStrangersValues(t *testing.T) {
	const strange = "two\nlines\t\x1b[2J\u009b2J\x7f\u202e"
	dir := t.TempDir()
	for _, c := range []struct {
		from, is string
		args     []string
	}{
		{"testdata/before.json", `"name": "NVIDIA H200"`, []string{"bench", "--read"}},
		{"testdata/before.json", `"name": "NVIDIA H200"`, []string{"diff", "testdata/after.json"}},
		{"../../trace/testdata/recording.jsonl", `"program":"program"`, []string{"trace"}},
		{"../../trace/testdata/recording.jsonl", `"program":"program"`, []string{"explain"}},
	} {
		text, err := os.ReadFile(c.from)
		if err != nil {
			t.Fatal(err)
		}
		key, _, _ := strings.Cut(c.is, ":")
		quoted, _ := json.Marshal(strange)
		changed := strings.Replace(string(text), c.is, key+":"+string(quoted), 1)
		if changed == string(text) {
			t.Fatalf("%s has no %s", c.from, c.is)
		}
		file := filepath.Join(dir, "x.json")
		write(t, file, changed)
		_, doc, errs := ferryRun(append(slices.Clone(c.args), file, "--json")...)
		var v any
		if err := json.Unmarshal([]byte(doc), &v); err != nil || !has(v, strange) || !printable.Is(doc) {
			t.Errorf("%s --json of %s: %v, stderr %q, output %.400q", c.args, c.from, err, errs, doc)
		}
		if _, out, _ := ferryRun(append(slices.Clone(c.args), file)...); strings.Contains(out, "two\n") || !printable.Is(out) {
			t.Errorf("%s of %s: output %q", c.args, c.from, out)
		}
	}
}

// has reports whether a string is within one of a value of JSON.
func has(v any, s string) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, s)
	case []any:
		return slices.ContainsFunc(v, func(x any) bool { return has(x, s) })
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), func(x any) bool { return has(x, s) })
	}
	return false
}

// word matches a word or a sign of PTX.
var word = regexp.MustCompile(`"[^"]*"|[A-Za-z0-9_.$%]+|[^\sA-Za-z0-9_.$%]`)

// strangersPTX has each kind of text that PTX can have.
const strangersPTX = `// a comment
.version 8.0
.target sm_75, debug
.address_size 64
.file 1 "strangers.cu"
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.visible .global .align 1 .b8 name[4] = {65, 66, 67, 0};
.visible .entry k(.param .u64 p, .param .u32 n) .maxntid 64, 1, 1
{
	.reg .b64 %a;
	.reg .b32 %x;
	.loc 1 7 3
	ld.param.u64 %a, [p];
	ld.param.u32 %x, [n];
again:
	st.global.u32 [%a+123456789], %x;
	.pragma "nounroll";
	ret;
}
`

// TestStrangersPTX: nothing in PTX reaches the terminal as an escape sequence: in the place of
// each word and behind it, alone and in quotes.
func TestStrangersPTX(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.ptx")
	commands := [][]string{
		{"run", file, "--kernel", "k", "--grid", "1", "--block", "1", "out:u32=[1]", "u32=1", "--device", "soft"},
		{"run", file, "--kernel", "k", "--grid", "1", "--block", "1", "out:u32=[1]", "u32=1", "--device", "soft", "--check", "--json"},
		{"info", "--kernel", file, "--device", "soft"}, {"info", "--kernel", file, "--device", "soft", "--json"},
		{"compare", "--max", "10", "--kernel", file + ":k", "--device", "soft"}, {"bind", file, "--check"}, {"__complete", "run", file, "--kernel", ""},
	}
	type place struct {
		at   []int
		text string
	}
	var places []place
	for _, at := range word.FindAllStringIndex(strangersPTX, -1) {
		w := strangersPTX[at[0]:at[1]]
		for _, text := range []string{obeyed, w + obeyed, `"` + obeyed + `"`, w + "\x1b[2J" + w} {
			places = append(places, place{at, text})
		}
		if inner, ok := strings.CutSuffix(w, `"`); ok && len(w) > 1 {
			places = append(places, place{at, inner + obeyed + `"`}, place{at, inner + "\u202e" + `"`})
		}
	}
	for _, p := range sample.OfEach(t, places, func(p place) string { return fmt.Sprint(p.text[0] == '"' && len(p.text) > len(obeyed)+2) }, 8) {
		text := strangersPTX[:p.at[0]] + p.text + strangersPTX[p.at[1]:]
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range commands {
			quiet(t.Context(), t, fmt.Sprintf("%q at %d", p.text, p.at[0]), args...)
		}
	}
}

// TestStrangersNames: nothing in an argument or the name of a file reaches the terminal as an
// escape sequence, in any command and flag.
func TestStrangersNames(t *testing.T) {
	dir := t.TempDir()
	before, err := filepath.Abs("testdata/before.json")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // some write files
	odd := strings.ReplaceAll(obeyed, "\x00", "")
	there := filepath.Join(dir, odd+".json")
	if err := os.WriteFile(there, []byte("{"), 0o600); err != nil {
		t.Skipf("no such names here: %v", err)
	}
	var out, errs bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // commands read their arguments and files, and measure nothing
	root := newRoot(&session{stdout: &out, stderr: &errs})
	n := 0
	for _, c := range all(root) {
		words := strings.Fields(c.CommandPath())[1:]
		try := func(more ...string) {
			n++
			quiet(ctx, t, "a strange argument", append(slices.Clone(words), more...)...)
		}
		try(odd)
		try("--" + odd)
		try("-" + odd)
		try(there, there)
		try("--html", there, there)
		for _, flag := range flagNames(c) {
			try(flag, odd)
			try(flag+"="+there, there)
		}
	}
	for _, more := range [][]string{{odd + ".cu"}, {"soft:" + odd}, {"soft:" + there}, {filepath.Join(dir, odd, "x.ptx")}} {
		for _, c := range [][]string{{"compile"}, {"bind"}, {"info", "--kernel"}, {"info", "--device"}, {"explain"}, {"trace"}, {"trace", "--"}, {"check", "--"}, {"diff", before}, {"help"}, {"profile", "show"}} {
			quiet(ctx, t, "a strange argument", append(slices.Clone(c), more...)...)
		}
	}
	if n < 150 {
		t.Errorf("only %d calls", n)
	}
}

// TestStrangersVariables: an error about a variable has no escape sequence, and cuts a long value.
func TestStrangersVariables(t *testing.T) {
	for _, name := range []string{"FERRY_DEVICE", "FERRY_KERNEL_LIMIT", "FERRY_SCHEDULE", "FERRY_CHECK", "FERRY_FAULT", "FERRY_LIBCUDA", "FERRY_NVRTC", "FERRY_CLANG", "FERRY_TRACE", "FERRY_WAIT_WARNING", "COLUMNS", "TERM"} {
		for _, device := range []string{"soft", "cuda", ""} {
			for _, value := range []string{strings.ReplaceAll(obeyed, "\x00", ""), "soft:" + strings.Repeat("é", 100000), strings.Repeat("\x1b", 50000)} {
				t.Run(name+" "+device, func(t *testing.T) {
					t.Chdir(t.TempDir()) // FERRY_TRACE names a file
					t.Setenv(name, value)
					args := []string{"info"}
					if device != "" {
						args = append(args, "--device", device)
					}
					quiet(t.Context(), t, name, args...)
					if _, _, errs := ferryRun(args...); len(errs) > 4096 {
						t.Errorf("%d bytes of errors: %.200q", len(errs), errs)
					}
				})
			}
		}
	}
}

// TestPartialIsJSON: the reason why a document is partial is a string of JSON, whatever it has.
func TestPartialIsJSON(t *testing.T) {
	for _, reason := range []string{"interrupted", obeyed, `a "b" \x \`, "\u2028"} {
		var doc struct{ Partial string }
		text := markPartial([]byte(`{"schema":"x"}`+"\n"), reason)
		if err := json.Unmarshal(text, &doc); err != nil || doc.Partial != strings.ToValidUTF8(reason, "\ufffd") {
			t.Errorf("%q: %s: %v", reason, text, err)
		}
	}
}
