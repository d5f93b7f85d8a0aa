package runner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/ptx"
)

// addressSize is the size of a device address, which a kernel gets for a buffer.
const addressSize = 8

// Match checks that the arguments fit the parameters of a kernel in number and size. The
// error has a line for each parameter. Match reads the files of structures.
func Match(kernel string, params []ptx.Param, args []Arg) error {
	for i := range args {
		if err := args[i].readStruct(); err != nil {
			return err
		}
	}
	var lines []string
	fits := len(params) == len(args)
	for i := range max(len(params), len(args)) {
		line := fmt.Sprintf("  %d  ", i)
		if i < len(params) {
			line += paramText(params[i])
		} else {
			line += "(no parameter)"
		}
		given := "(no argument)"
		if i < len(args) {
			given = args[i].Text
		}
		line = fmt.Sprintf("%-46s %s", line, shorten(given, 60))
		if i < len(params) && i < len(args) {
			if wrong := mismatch(params[i], &args[i]); wrong != "" {
				fits = false
				line += "  <- " + wrong
			}
		}
		lines = append(lines, line)
	}
	if fits {
		return nil
	}
	head := fmt.Sprintf("the arguments do not fit kernel %s:", kernel)
	if len(params) != len(args) {
		head = fmt.Sprintf("kernel %s has %s, but %s given:", kernel, count(len(params), "parameter"), countWere(len(args), "argument"))
	}
	return errors.New(head + "\n" + strings.Join(lines, "\n"))
}

func paramText(p ptx.Param) string {
	if p.Type == ptx.NoType { // a parameter of a cubin has no name
		return count(p.Size, "byte")
	}
	if p.Size != p.Type.Size() {
		return fmt.Sprintf("%s: %d bytes of .%s", p.Name, p.Size, p.Type)
	}
	return fmt.Sprintf("%s: .%s", p.Name, p.Type)
}

// mismatch explains why an argument does not fit a parameter. It returns "" if it fits.
func mismatch(p ptx.Param, a *Arg) string {
	switch {
	case a.Direction != Scalar && p.Size != addressSize:
		return fmt.Sprintf("a buffer is passed by its address, %d bytes, but the parameter has %d", addressSize, p.Size)
	case a.structure && p.Size != len(a.values):
		return fmt.Sprintf("the structure has %s, but the parameter has %d", count(len(a.values), "byte"), p.Size)
	case a.structure:
		return ""
	case a.Direction == Scalar && p.Size > addressSize:
		return fmt.Sprintf("the parameter is a structure of %d bytes: write struct=TYPE:VALUE,... or struct=@FILE", p.Size)
	case a.Direction == Scalar && p.Size != a.Type.Size():
		return fmt.Sprintf("%s has %s, but the parameter has %d: write %s", a.Type, count(a.Type.Size(), "byte"), p.Size, advise(p, a))
	}
	return ""
}

// advise returns the argument with a type of the parameter's size.
func advise(p ptx.Param, a *Arg) string {
	_, value, _ := strings.Cut(a.Text, "=")
	letter := map[class]string{unsigned: "u", signed: "s", pattern: "b", float: "f"}[a.Type.class()]
	if a.Type.class() == float && p.Size == 1 {
		letter = "b"
	}
	return fmt.Sprintf("%s%d=%s", letter, 8*p.Size, value)
}

// typeWarnings returns a warning for each argument with the right size but another type:
// a float for an integer, or an integer for a float.
func typeWarnings(f *ptx.Func, args []Arg) []string {
	var warnings []string
	params, _ := f.ParamLayout()
	for i, p := range params {
		a := &args[i]
		if a.Direction != Scalar || a.Type.class() == pattern {
			continue
		}
		integer := p.Type.String() != "" && strings.ContainsAny(p.Type.String()[:1], "us")
		if a.Type.class() == float && integer || a.Type.class() != float && p.Type.IsFloat() {
			warnings = append(warnings, fmt.Sprintf("parameter %d of kernel %s is .%s, but argument %q is %s: its bits are passed as they are",
				i, f.Name, p.Type, a.Text, a.Type))
		}
	}
	return warnings
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func countWere(n int, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return fmt.Sprintf("%d %ss were", n, what)
}

// shorten cuts s to at most n bytes.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n-3] + "..."
}
