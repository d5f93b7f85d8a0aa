package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/ptx"
)

const compileSchema = "ferry.compile/1"

// compileReport is the output of "ferry compile". In JSON, names do not change within a
// schema version, and no list is null.
type compileReport struct {
	Schema      string               `json:"schema"`
	File        string               `json:"file"`
	Output      string               `json:"output"` // empty after errors
	Compiler    string               `json:"compiler"`
	Arch        string               `json:"arch"`
	PTXVersion  string               `json:"ptx_version"`
	Kernels     []compiledKernel     `json:"kernels"`
	Warnings    []compile.Diagnostic `json:"warnings"`
	Diagnostics []compile.Diagnostic `json:"diagnostics"` // errors with their notes
	More        int                  `json:"more"`        // errors that are not in the list
	Problem     string               `json:"problem"`     // why the kernels are not known
}

// compiledKernel is a kernel of the output.
type compiledKernel struct {
	Name   string          `json:"name"`
	Params []compiledParam `json:"params"`
}

// compiledParam is a parameter as it stands in the buffer of a launch.
type compiledParam struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Size   int    `json:"size"`
}

// newCompileReport describes the result of a compilation.
func newCompileReport(o *compileOptions, r *compile.Result) *compileReport {
	report := &compileReport{Schema: compileSchema, File: o.file, Output: o.out, Compiler: r.Compiler, Arch: r.Arch,
		Kernels: []compiledKernel{}, Warnings: notNil(r.Warnings), Diagnostics: []compile.Diagnostic{}}
	m, err := ptx.Parse(o.out, string(r.PTX))
	if err != nil {
		report.Problem = err.Error()
		return report
	}
	report.PTXVersion = fmt.Sprintf("%d.%d", m.Version.Major, m.Version.Minor)
	for _, f := range m.Entries() {
		k := compiledKernel{Name: f.Name, Params: []compiledParam{}}
		params, _ := f.ParamLayout()
		for _, p := range params {
			k.Params = append(k.Params, compiledParam{paramType(p), p.Offset, p.Size})
		}
		report.Kernels = append(report.Kernels, k)
	}
	return report
}

// paramType returns the type of a parameter: "u64", or "b8[12]" for an array.
func paramType(p ptx.Param) string {
	name := strings.TrimPrefix(p.Type.String(), ".")
	if one := p.Type.Size(); one > 0 && p.Size != one {
		return fmt.Sprintf("%s[%d]", name, p.Size/one)
	}
	return name
}

// Page returns the report: a line of the file, and one of each kernel.
func (r *compileReport) Page() *layout.Page {
	p := new(layout.Page)
	if r.Problem != "" {
		p.Hang(2, fmt.Sprintf("%s: PTX for %s, by %s", r.Output, r.Arch, r.Compiler))
		p.Hang(2, fmt.Sprintf("Ferry cannot read this PTX, so the software GPU refuses it: %s", r.Problem))
		return p
	}
	noun := "kernels"
	if len(r.Kernels) == 1 {
		noun = "kernel"
	}
	p.Hang(2, fmt.Sprintf("%s: PTX %s for %s, %d %s, by %s", r.Output, r.PTXVersion, r.Arch, len(r.Kernels), noun, r.Compiler))
	for _, k := range r.Kernels {
		types := make([]string, len(k.Params))
		for i, param := range k.Params {
			types[i] = param.Type
		}
		p.Hang(4, fmt.Sprintf("  %s(%s)", k.Name, strings.Join(types, ", ")))
	}
	return p
}

// JSON returns the report as a document.
func (r *compileReport) JSON() ([]byte, error) {
	text, err := json.Marshal(r)
	return append(text, '\n'), err
}
