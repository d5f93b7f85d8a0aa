package cu_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// flagTypes makes a value of each flag type.
var flagTypes = map[string]func(uint32) fmt.Stringer{
	"CtxFlags":              func(v uint32) fmt.Stringer { return cu.CtxFlags(v) },
	"EventFlags":            func(v uint32) fmt.Stringer { return cu.EventFlags(v) },
	"EventRecordFlags":      func(v uint32) fmt.Stringer { return cu.EventRecordFlags(v) },
	"EventWaitFlags":        func(v uint32) fmt.Stringer { return cu.EventWaitFlags(v) },
	"IpcMemFlags":           func(v uint32) fmt.Stringer { return cu.IpcMemFlags(v) },
	"MemRangeFlags":         func(v uint32) fmt.Stringer { return cu.MemRangeFlags(v) },
	"MemAccessFlags":        func(v uint32) fmt.Stringer { return cu.MemAccessFlags(v) },
	"MemAttachFlags":        func(v uint32) fmt.Stringer { return cu.MemAttachFlags(v) },
	"MemHostAllocFlags":     func(v uint32) fmt.Stringer { return cu.MemHostAllocFlags(v) },
	"MemHostRegisterFlags":  func(v uint32) fmt.Stringer { return cu.MemHostRegisterFlags(v) },
	"OccupancyFlags":        func(v uint32) fmt.Stringer { return cu.OccupancyFlags(v) },
	"StreamFlags":           func(v uint32) fmt.Stringer { return cu.StreamFlags(v) },
	"StreamWaitValueFlags":  func(v uint32) fmt.Stringer { return cu.StreamWaitValueFlags(v) },
	"StreamWriteValueFlags": func(v uint32) fmt.Stringer { return cu.StreamWriteValueFlags(v) },
}

// TestFlagNames finds every constant of every flag type in the source. The text of each is
// CUDA's name, which is also the first word of its comment.
func TestFlagNames(t *testing.T) {
	found := map[string]int{}
	for _, spec := range valueSpecs(t) {
		typ, ok := spec.Type.(*ast.Ident)
		if !ok || !strings.HasSuffix(typ.Name, "Flags") {
			continue
		}
		found[typ.Name]++
		name, lit := spec.Names[0].Name, spec.Values[0].(*ast.BasicLit)
		value, err := strconv.ParseUint(lit.Value, 0, 32)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		of := flagTypes[typ.Name]
		if of == nil {
			t.Errorf("flagTypes has no %s, the type of %s", typ.Name, name)
			continue
		}
		want, _, _ := strings.Cut(strings.TrimSpace(spec.Comment.Text()), " ")
		want = strings.TrimSuffix(want, ":")
		if got := of(uint32(value)).String(); got != want || !strings.HasPrefix(want, "CU_") {
			t.Errorf("%s is %q as text, and its comment begins with %q, want CUDA's name twice", name, got, want)
		}
	}
	for name := range flagTypes {
		if found[name] == 0 {
			t.Errorf("no constant of %s found", name)
		}
	}
}

// valueSpecs returns the declarations of constants with one name, a type and a value.
func valueSpecs(t *testing.T) (specs []*ast.ValueSpec) {
	t.Helper()
	files, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, s := range group.Specs {
				if s := s.(*ast.ValueSpec); len(s.Names) == 1 && len(s.Values) == 1 {
					specs = append(specs, s)
				}
			}
		}
	}
	return specs
}

func TestFlagText(t *testing.T) {
	for _, c := range []struct {
		flags fmt.Stringer
		want  string
	}{
		{cu.CtxFlags(0), "CU_CTX_SCHED_AUTO"},
		{cu.CtxMapHost | cu.CtxSchedSpin, "CU_CTX_SCHED_SPIN|CU_CTX_MAP_HOST"},
		{cu.CtxMapHost, "CU_CTX_MAP_HOST"},
		{cu.CtxSchedMask | cu.CtxLmemResizeToMax, "CU_CTX_SCHED_MASK|CU_CTX_LMEM_RESIZE_TO_MAX"},
		{cu.MemHostAllocFlags(0), "0"},
		{cu.MemHostAllocPortable | cu.MemHostAllocWriteCombined | 0x90, "CU_MEMHOSTALLOC_PORTABLE|CU_MEMHOSTALLOC_WRITECOMBINED|0x90"},
		{cu.MemHostAllocFlags(0x80000000), "0x80000000"},
		{cu.MemAccessProtReadWrite, "CU_MEM_ACCESS_FLAGS_PROT_READWRITE"},
		{cu.MemAccessFlags(2), "0x2"},
		{cu.StreamFlags(0), "CU_STREAM_DEFAULT"},
	} {
		if got := c.flags.String(); got != c.want {
			t.Errorf("%T(%d) is %q as text, want %q", c.flags, c.flags, got, c.want)
		}
	}
}
