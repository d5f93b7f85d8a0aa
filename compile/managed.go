package compile

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// This file gives the managed variables of a source the attribute that they have in PTX. Clang has
// no such variables for CUDA. In Ferry's headers __managed__ makes a variable of the device in a
// section of its own, which the intermediate code of clang shows and its PTX does not. So a source
// with the word is compiled a second time, to intermediate code, for the names of its variables.

// managedWord is the word that makes a variable managed.
const managedWord = "__managed__"

// managedVariable matches such a variable in intermediate code.
var managedVariable = regexp.MustCompile(`(?m)^@([\w.$]+) = [^"\n]*global .*, section "ferry\.managed"`)

// markManaged returns PTX in which the managed variables of the source have their attribute.
func (r *clangRun) markManaged(ctx context.Context, ptx []byte, version int) ([]byte, error) {
	if !r.mentionsManaged() {
		return ptx, nil
	}
	code, _, err := r.clang(ctx, append([]string{"-emit-llvm"}, r.args(version)...))
	if err != nil {
		return nil, fmt.Errorf("find the managed variables with %s: %w", r.c.path, err)
	}
	for _, m := range managedVariable.FindAllSubmatch(code, -1) {
		name := bytes.ReplaceAll(m[1], []byte("."), []byte("_$_")) // as clang writes it in PTX
		if ptx, err = asManaged(ptx, string(name)); err != nil {
			return nil, err
		}
	}
	return ptx, nil
}

// asManaged gives a variable of PTX the attribute. Clang declares each in a line of its own:
// ".visible .global .align 4 .u32 NAME = 5;".
func asManaged(ptx []byte, name string) ([]byte, error) {
	form := regexp.MustCompile(`(?m)^(?:\.(?:visible|weak|extern) )?\.global( )[^=;{]*[ ]` + regexp.QuoteMeta(name) + `(?:\[\d*\])?(?: =|;)`)
	at := form.FindSubmatchIndex(ptx)
	if at == nil {
		return nil, fmt.Errorf("clang's PTX does not have the managed variable %s", name)
	}
	return slices.Concat(ptx[:at[2]], []byte(" .attribute(.managed)"), ptx[at[2]:]), nil
}

// mentionsManaged reports whether the source or a header has the word. Ferry's own headers, which
// define it, and those of the system do not count.
func (r *clangRun) mentionsManaged() bool {
	if bytes.Contains(r.u.source, []byte(managedWord)) || strings.Contains(strings.Join(r.u.o.Define, " "), managedWord) {
		return true
	}
	return slices.ContainsFunc(usedFiles(readText(r.uses, maxSource)), func(path string) bool {
		return !strings.HasPrefix(path, r.dir) && strings.Contains(readText(path, maxSource), managedWord)
	})
}

// usedFiles returns the files of a rule for make that clang has written. They follow the first colon
// with a space. A space in a name has a backslash before it.
func usedFiles(rule string) (files []string) {
	_, rule, _ = strings.Cut(rule, ": ")
	rule = strings.NewReplacer("\\\n", " ", `\ `, "\x00", `\#`, "#", "$$", "$").Replace(rule)
	for _, f := range strings.Fields(rule) {
		files = append(files, filepath.FromSlash(strings.ReplaceAll(f, "\x00", " ")))
	}
	return files
}
