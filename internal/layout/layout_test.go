package layout

import "testing"

// sample returns a table with numbers and a text.
func sample() *Table {
	t := &Table{Columns: []Column{{Name: "kind"}, {Name: "a\nus", Right: true}, {Name: "ra\u00ad\nte", Right: true}, {Name: "cause", Words: true}}}
	t.Row("copy in", "1.50", "12 GB/s", "headers of packets take a part of the link's rate")
	t.Row("kernel reads what is there", "120.00", "", "faults")
	return t
}

// TestTable: each way in which a table gives way to fewer columns.
func TestTable(t *testing.T) {
	for _, c := range []struct {
		columns int
		want    string
	}{
		{0, `                                 a      ra-
kind                            us       te  cause
copy in                       1.50  12 GB/s  headers of packets take a part of the link's rate
kernel reads what is there  120.00           faults
`},
		{94, ""}, // as without a number
		{80, `                                 a      ra-
kind                            us       te  cause
copy in                       1.50  12 GB/s  headers of packets take a part of
                                             the link's rate
kernel reads what is there  120.00           faults
`},
		{60, `              a      ra-
kind         us       te  cause
copy in    1.50  12 GB/s  headers of packets take a part of
                          the link's rate
kernel reads what is there
         120.00           faults
`},
		{45, `       a      ra-
kind
      us       te  cause
copy in
    1.50  12 GB/s  headers of packets take a
                   part of the link's rate
kernel reads what is there
  120.00           faults
`},
		{40, `kind
copy in
  a us   1.50
  rate   12 GB/s
  cause  headers of packets take a part
         of the link's rate
kernel reads what is there
  a us   120.00
  cause  faults
`},
	} {
		want := c.want
		if want == "" {
			want = sample().text(0)
		}
		if got := sample().text(c.columns); got != want {
			t.Errorf("%d columns: got\n%s\nwant\n%s", c.columns, got, want)
		}
	}
}

// TestFacts: a table without names has no head. The text goes on below its beginning.
func TestFacts(t *testing.T) {
	facts := &Table{Columns: []Column{{Width: 10}, {Words: true}}, Indent: 2}
	facts.Row("mapping", "yes: kernels can use page-locked memory")
	want := "  mapping     yes: kernels can use\n              page-locked memory\n"
	if got := facts.text(40); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	empty := &Table{Columns: []Column{{Name: "a"}, {}, {Name: "b"}}}
	empty.Row("1", "", "2")
	if got, want := empty.text(4), "a  b\n1  2\n"; got != want {
		t.Errorf("with a column without cells: got\n%s\nwant\n%s", got, want)
	}
	if got := (&Table{Columns: []Column{{Name: "a"}}}).text(80); got != "" {
		t.Errorf("a table without rows is %q", got)
	}
}

// TestColour: escape sequences need no columns.
func TestColour(t *testing.T) {
	table := &Table{Columns: []Column{{Name: "n"}, {Name: "us", Right: true}, {Name: "ns", Right: true}}}
	table.Row("1", "\x1b[1;32m*2\x1b[0m", "30")
	if got, want := table.text(9), "n  us  ns\n1  \x1b[1;32m*2\x1b[0m  30\n"; got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// TestFold: lines that fit stay as they are.
func TestFold(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"one two three four", 0, "one two three four"},
		{"one two three four", 9, "one two\nthree\nfour"},
		{"  one two three", 9, "  one two\n  three"},
		{"a  b   c\n\none two three\n", 9, "a  b   c\n\none two\nthree\n"},
		{"averylongword two", 5, "averylongword\ntwo"},
		{"übergroße Wörter", 16, "übergroße Wörter"},
	} {
		if got := Fold(c.text, c.columns); got != c.want {
			t.Errorf("%q in %d columns: got %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}

// TestPage: the parts of a page, in their order. Words that are wider than the page, and a page of
// one column, have an end, too.
func TestPage(t *testing.T) {
	var p, other Page
	p.Linef("%d words of text, more than fit", 4)
	other.Hang(4, "do: read the manual, and then ask")
	long := &Table{Columns: []Column{{}, {Name: "a", Words: true}}}
	long.Row("a_key_without_any_blanks_in_it_at_all", "a_word_without_any_blanks_in_it_at_all")
	other.Exact("a program that is not folded\n")
	p.Add(&other)
	p.Table(long)
	want := "4 words of text, more than fit\ndo: read the manual, and then\n    ask\na program that is not folded\n" +
		"a_key_without_any_blanks_in_it_at_all\n  a\n    a_word_without_any_blanks_in_it_at_all\n"
	for _, columns := range []int{1, 30} {
		if got := p.Text(columns); got != want {
			t.Errorf("%d columns: got\n%s\nwant\n%s", columns, got, want)
		}
	}
}

// TestFoldOfSource: a line of a source stays whole above its mark, and other lines fold.
func TestFoldOfSource(t *testing.T) {
	const source, mark = "int first, second, third;", "           ^~~~~~"
	want := "k.cu:1:12: error:\nnot used\n" + source + "\n" + mark + "\nint first, second,\nthird;\n"
	if got := Fold("k.cu:1:12: error: not used\n"+source+"\n"+mark+"\n"+source+"\n", 18); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
