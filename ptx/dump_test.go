package ptx_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/ptx"
)

// TestGoldenModules compares the text form of whole modules with golden files.
func TestGoldenModules(t *testing.T) {
	for _, name := range []string{"features", "old12", "old14"} {
		t.Run(name, func(t *testing.T) {
			got := dump(parseFile(t, name+".ptx"))
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

// dump returns a module with all its fields as text.
func dump(m *ptx.Module) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version %d.%d target %s address size %d\n", m.Version.Major, m.Version.Minor, strings.Join(m.Target, " "), m.AddressSize)
	for _, n := range slices.Sorted(maps.Keys(m.Files)) {
		fmt.Fprintf(&b, "file %d %s\n", n, m.Files[n])
	}
	for _, name := range slices.Sorted(maps.Keys(m.Aliases)) {
		fmt.Fprintf(&b, "alias %s = %s, found as %s\n", name, m.Aliases[name], m.Func(name).Name)
	}
	dumpVars(&b, "", m.Vars)
	for _, f := range m.Funcs {
		dumpFunc(&b, f)
	}
	return b.String()
}

func dumpVars(b *strings.Builder, indent string, vars []*ptx.Var) {
	for _, v := range vars {
		fmt.Fprintf(b, "%s%s %s: %s%s align %d size %d", indent, v.Pos, v.Name, v.Space, when(v.Linkage != ptx.Local, " ", v.Linkage), v.Align, v.Size())
		fmt.Fprint(b, " ", v.Type, when(v.Vec > 0, " v", v.Vec), when(v.Dims != nil, " ", v.Dims), when(v.Count > 0, " count ", v.Count))
		fmt.Fprint(b, when(v.Managed, " managed"), when(v.Ptr, " to ", v.PtrSpace, " align ", v.PtrAlign), when(v.Init != nil, " = ", v.Init), "\n")
		for _, r := range v.Relocs {
			fmt.Fprintf(b, "%s\tat %d: %d bytes of %s%+d%s%s\n", indent, r.Offset, r.Size, r.Symbol, r.Addend, when(r.Generic, " generic"), when(r.Shift > 0, " >> ", r.Shift))
		}
	}
}

func when(yes bool, words ...any) string {
	if !yes {
		return ""
	}
	return fmt.Sprint(words...)
}

func dumpFunc(b *strings.Builder, f *ptx.Func) {
	fmt.Fprintf(b, "%s %s%s%s%s%s\n", f.Pos, f.Name, when(f.Entry, " entry"), when(f.Declared, " declared"), when(f.NoReturn, " noreturn"), when(f.Linkage != ptx.Local, " ", f.Linkage))
	fmt.Fprint(b, when(f.MaxNTID[0] > 0, "\tmaxntid ", f.MaxNTID, "\n"), when(f.ReqNTID[0] > 0, "\treqntid ", f.ReqNTID, "\n"), when(f.Cluster[0] > 0, "\tcluster ", f.Cluster, "\n"),
		when(f.MinBlocks > 0, "\tblocks ", f.MinBlocks, "\n"), when(f.MaxRegs > 0, "\tregisters ", f.MaxRegs, "\n"), when(f.MaxClusterRank > 0, "\trank ", f.MaxClusterRank, "\n"))
	dumpVars(b, "\treturns ", f.Returns)
	dumpVars(b, "\ttakes ", f.Params)
	if layout, total := f.ParamLayout(); f.Entry && total > 0 {
		fmt.Fprintf(b, "\tlayout %v, %d bytes\n", layout, total)
	}
	dumpVars(b, "\t", f.Vars)
	for _, name := range slices.Sorted(maps.Keys(f.Tables)) {
		fmt.Fprintf(b, "\ttable %s: %s\n", name, strings.Join(f.Tables[name], " "))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Protos)) {
		dumpFunc(b, f.Protos[name])
	}
	for i := range f.Body {
		dumpLabels(b, f, i)
		fmt.Fprintf(b, "\t\t%s %s\n", f.Body[i].Pos, f.Body[i].String())
	}
	dumpLabels(b, f, len(f.Body))
}

func dumpLabels(b *strings.Builder, f *ptx.Func, at int) {
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		if f.Labels[name] == at {
			fmt.Fprintf(b, "\t%s:\n", name)
		}
	}
}
