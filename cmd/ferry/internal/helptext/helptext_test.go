package helptext

import "testing"

const text = `usage: ferry x [--a B] [--long VALUE]
               FILE
       ferry x --list

Does this and that, in lines that are short in
the source.

  one    the first, with
         more of it
  two    the second
  x(a, b)

examples:
  ferry x  --a b

flags:
      --a B   a
  -h, --help  show -this
`

// TestPage: each kind of part in few columns.
func TestPage(t *testing.T) {
	want := `usage: ferry x [--a B]
             [--long VALUE] FILE
       ferry x --list

Does this and that, in lines
that are short in the source.

  one  the first, with more of
       it
  two  the second
  x(a, b)

examples:
  ferry x  --a b

flags:
      --a B   a
  -h, --help  show -this
`
	if got := Page(Parse(text)).Text(32); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestRoffPage: each kind of part in a manual page.
func TestRoffPage(t *testing.T) {
	want := `.SH SYNOPSIS
.HP 4
ferry x [\-\-a\ B] [\-\-long\ VALUE] FILE
.HP 4
ferry x \-\-list
.SH DESCRIPTION
.PP
Does this and that, in lines that are short in the source.
.TP
\fBone\fR
the first, with more of it
.TP
\fBtwo\fR
the second
.PP
.nf
x(a, b)
.fi
.SH EXAMPLES
.PP
.nf
ferry x  \-\-a b
.fi
.SH FLAGS
.TP
\fB\-\-a B\fR
a
.TP
\fB\-h, \-\-help\fR
show \-this
`
	if got := Roff(Parse(text)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestEscape keeps lines that begin like a request.
func TestEscape(t *testing.T) {
	if got, want := Escape(".x\n'y\na-b\\"), "\\&.x\n\\(aqy\na\\-b\\e"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
