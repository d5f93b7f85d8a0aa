package callsite

import (
	"runtime"
	"testing"
)

// TestOwn: code of the library is not a program's. Tests, commands and examples are programs.
func TestOwn(t *testing.T) {
	for _, c := range []struct {
		function, file string
		want           bool
	}{
		{"github.com/ferrygpu/ferry.Copy[...]", "copy.go", true},
		{"github.com/ferrygpu/ferry/kerneltest.Check", "kerneltest/run.go", true},
		{"github.com/ferrygpu/ferry/internal/staging.(*Ring).put", "internal/staging/ring.go", true},
		{"github.com/ferrygpu/ferry/internal/closing.AfterHostFunction", "internal/closing/closing.go", true},
		{"github.com/ferrygpu/ferry/internal/test/sweep.run", "internal/test/sweep/run.go", false},
		{"sync.(*Once).Do", "once.go", true},
		{"github.com/ferrygpu/ferry.TestCopy", "copy_test.go", false},
		{"github.com/ferrygpu/ferry_test.TestCopy", "copy_test.go", false},
		{"github.com/ferrygpu/ferry/cutest.Run", "cutest/run.go", false},
		{"github.com/ferrygpu/ferry/internal/measure/runner.Run", "internal/measure/runner/run.go", false},
		{"github.com/ferrygpu/ferryboat.Row", "row.go", false},
		{"main.main", "main.go", false},
	} {
		if p := (Place{File: c.file, Func: c.function}); p.Own() != c.want {
			t.Errorf("%s in %s: own %v, want %v", c.function, c.file, p.Own(), c.want)
		}
	}
}

// TestFind: the line of a call has one number, whoever calls its function. Each line has its own.
func TestFind(t *testing.T) {
	var f Finder
	var added []Place
	add := func(id int, p Place) { added = append(added, p) }
	var ids []int
	for range 2 {
		ids = append(ids, f.Find(0, add))
		ids = append(ids, f.Find(0, add))
	}
	_, file, line, _ := runtime.Caller(0)
	if ids[0] != ids[2] || ids[1] != ids[3] || ids[0] == ids[1] || len(added) != 2 {
		t.Errorf("numbers %v, added %v; want two", ids, added)
	}
	for i, id := range ids[:2] {
		if p := f.Place(id); p.File != file || p.Line != line-3+i || p != added[i] {
			t.Errorf("call %d is at %v, want %s:%d", i, p, file, line-3+i)
		}
	}
	find := func() int { return f.Find(0, add) }
	if a, b := find(), find(); a != 3 || b != 3 || len(added) != 3 {
		t.Errorf("a line with two callers has the numbers %d and %d", a, b)
	}
	if p := f.Place(4); p != (Place{}) || p.String() != "an unknown place" {
		t.Errorf("a number that is not known has %v", p)
	}
}

// TestLine: a line has its file's name without folders, on every system.
func TestLine(t *testing.T) {
	for file, want := range map[string]string{"/home/user/main.go": "main.go:62", `C:\src\main.go`: "main.go:62", "main.go": "main.go:62", "kernels/shift.cu": "shift.cu:62"} {
		if got := Line(file, 62); got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
		if got := (Place{File: file, Line: 62}).String(); got != want {
			t.Errorf("%s: the place is %s, want %s", file, got, want)
		}
	}
	if got := Line("/usr/bin/prog+0x1139", 0); got != "prog+0x1139" { // a program without debugging information
		t.Errorf("without a line: got %s", got)
	}
}

// TestSetCaller: the line of a call from another language is that of its address. Without a
// listener it is looked for when a text needs it, and once.
func TestSetCaller(t *testing.T) {
	var pc uintptr
	asked := 0
	SetCaller(func() uintptr { return pc }, func(pc uintptr) Place {
		asked++
		return Place{File: "main.c", Line: int(pc / 10), Func: "main"} // ten addresses have one line
	})
	defer SetCaller(nil, nil)
	var lazy, early Finder
	var added []Place
	add := func(id int, p Place) { added = append(added, p) }
	goLine := lazy.Find(0, nil)
	for range 2 {
		pc = 120
		a := lazy.Find(0, nil)
		pc = 130
		b := lazy.Find(0, nil)
		if a == b || a == goLine || b == goLine || asked != 0 {
			t.Fatalf("two addresses and a line of Go have the numbers %d, %d, %d; %d were looked for", a, b, goLine, asked)
		}
	}
	for range 2 {
		if p := lazy.Place(2); p.String() != "main.c:12" || asked != 1 {
			t.Errorf("got %v, looked for %d times, want main.c:12 and once", p, asked)
		}
	}
	if p := lazy.Place(goLine); p.File == "main.c" || p.Line == 0 {
		t.Errorf("the line of Go is %v", p)
	}
	for _, at := range []uintptr{121, 122, 122, 131} {
		pc = at
		early.Find(0, add)
	}
	if len(added) != 2 || added[0].Line != 12 || added[1].Line != 13 || early.Place(2) != added[1] {
		t.Errorf("two lines were added as %v", added)
	}
	SetCaller(nil, nil)
	if p := lazy.Place(3); p != (Place{}) {
		t.Errorf("an address that nobody knows is at %v", p)
	}
}
