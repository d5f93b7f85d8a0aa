package bind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/inputfile"
)

// StaleError says why generated files do not belong to their source any more.
type StaleError struct {
	File    string
	Reasons []string
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%s is stale: run ferry bind again\n\t%s", e.File, strings.Join(e.Reasons, "\n\t"))
}

// Check compares generated files with their source. The error is a [*StaleError] if they
// are stale. It is nil without compiling anything if the hashes of the source, of the
// files that it includes by #include "NAME", of the PTX and of the Go file are those that
// the Go file records, and the options are the same. Otherwise Check compiles the source
// to say which argument of which kernel differs. It never compares the text of PTX with
// that of a compiler, because compilers differ in it.
func Check(ctx context.Context, o *Options) error {
	f, err := o.files()
	if err != nil {
		return err
	}
	code, err := inputfile.Read(f.out, inputfile.Source)
	if errors.Is(err, os.ErrNotExist) {
		return &StaleError{f.out, []string{"the file does not exist"}}
	} else if err != nil {
		return fmt.Errorf("check %s: %w", o.Source, err)
	}
	old, ok := readStamp(code)
	if !ok {
		return &StaleError{f.out, []string{"the file was not written by ferry bind"}}
	}
	reasons := f.compare(old, code)
	if len(reasons) == 0 {
		return nil
	}
	m, err := f.module(ctx)
	if err != nil {
		return errors.Join(&StaleError{f.out, reasons}, err)
	}
	reasons = append(reasons, compareSignatures("kernel", "argument", old.kernels, m.stamp.kernels)...)
	reasons = append(reasons, compareSignatures("struct", "field", old.structs, m.stamp.structs)...)
	return &StaleError{f.out, reasons}
}

// compare returns the reasons that need no compiler.
func (f *files) compare(old *stamp, code []byte) (reasons []string) {
	add := func(form string, args ...any) { reasons = append(reasons, fmt.Sprintf(form, args...)) }
	if old.version != formatVersion {
		add("it was written by another version of ferry bind")
	}
	if rest, sum := unseal(code); hash(rest) != sum {
		add("it was changed after ferry bind wrote it")
	}
	if options := f.optionText(); old.options != options {
		add("it was made with the options %q, and now they are %q", old.options, options)
	}
	if !slices.Equal(old.sources, f.sources) {
		for _, s := range f.sources {
			switch i := slices.IndexFunc(old.sources, func(o hashed) bool { return o.name == s.name }); {
			case i < 0:
				add("the source %s is new", s.name)
			case old.sources[i].sum != s.sum:
				add("the source %s has changed", s.name)
			}
		}
		for _, s := range old.sources {
			if !slices.ContainsFunc(f.sources, func(n hashed) bool { return n.name == s.name }) {
				add("the source %s is not used any more", s.name)
			}
		}
	}
	text, err := inputfile.Read(f.ptx, inputfile.Source)
	switch name, _ := f.relative(f.ptx); {
	case err != nil:
		add("the PTX cannot be read: %v", err)
	case name != old.ptx.name:
		add("it embeds %s, and now the PTX is %s", old.ptx.name, name)
	case hash(text) != old.ptx.sum:
		add("%s was changed after ferry bind wrote %s", name, filepath.Base(f.out))
	}
	return reasons
}

// compareSignatures says how kernels or structures differ from those of the Go file.
func compareSignatures(what, of string, old, now []signature) (reasons []string) {
	for _, a := range old {
		i := slices.IndexFunc(now, func(b signature) bool { return a.name == b.name })
		if i < 0 {
			reasons = append(reasons, fmt.Sprintf("%s %s is in the Go file and not in the source", what, a.name))
			continue
		}
		reasons = append(reasons, compareParts(what+" "+a.name, of, a.parts, now[i].parts)...)
	}
	for _, b := range now {
		if !slices.ContainsFunc(old, func(a signature) bool { return a.name == b.name }) {
			reasons = append(reasons, fmt.Sprintf("%s %s is in the source and not in the Go file", what, b.name))
		}
	}
	return reasons
}

// compareParts says how parameters or fields differ.
func compareParts(what, of string, old, now []part) (reasons []string) {
	for i := range min(len(old), len(now)) {
		a, b := old[i], now[i]
		switch {
		case a.name != b.name && a.typ != b.typ:
			reasons = append(reasons, fmt.Sprintf("%s: %s %d is %s (%s) in the Go file and %s (%s) in the source", what, of, i+1, a.name, a.typ, b.name, b.typ))
		case a.typ != b.typ:
			reasons = append(reasons, fmt.Sprintf("%s: %s %d (%s) is %s in the Go file and %s in the source", what, of, i+1, a.name, a.typ, b.typ))
		case a.name != b.name:
			reasons = append(reasons, fmt.Sprintf("%s: %s %d is named %s in the Go file and %s in the source", what, of, i+1, a.name, b.name))
		}
	}
	if len(old) != len(now) {
		reasons = append(reasons, fmt.Sprintf("%s has %d %ss in the Go file and %d in the source", what, len(old), of, len(now)))
	}
	return reasons
}
