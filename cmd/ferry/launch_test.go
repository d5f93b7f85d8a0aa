package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/softgpu"
)

// shipped writes the PTX that Ferry ships to a file.
func shipped(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kernels.ptx")
	if err := os.WriteFile(path, []byte(kernels.PTX), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wallTimes matches the times that differ from run to run.
var wallTimes = regexp.MustCompile(`("wall_ns": |"launch_threads_per_s": |wall time |threads      16 )( *[0-9.e+]+( [munkMG]?s)?( [kMG] threads/s)? *)`)

func withoutWall(text string) string { return wallTimes.ReplaceAllString(text, "${1}WALL ") }

func TestRunVectorAdd(t *testing.T) {
	args := []string{"run", "--device", "soft:h200", shipped(t), "--kernel=vector_add", "in:f32=iota[16]", "in:f32=random[16]", "out:f32=[16]",
		"--grid", "1", "--block=16", "u64=16", "--seed", "7"}
	text := withoutWall(want(t, args...))
	golden(t, "run.txt", text)
	document := want(t, append(args, "--json")...)
	if !json.Valid([]byte(document)) {
		t.Errorf("not JSON: %s", document)
	}
	golden(t, "run.json", withoutWall(document))
	if again := withoutWall(want(t, append(args, "--json")...)); again != withoutWall(document) {
		t.Errorf("two runs differ:\n%s\n%s", again, document)
	}
	if bits := want(t, append(args, "--json", "--bits")...); !strings.Contains(bits, `"0x3f0254fd", `) {
		t.Errorf("no bit patterns: %s", bits)
	}
}

// TestRunErrors gives input that only the file or the device can refuse. The status is
// 1, and stdout is empty.
func TestRunErrors(t *testing.T) {
	ptx := shipped(t)
	bad := filepath.Join(t.TempDir(), "bad.ptx")
	if err := os.WriteFile(bad, []byte(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n\tret ret;\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	add := func(more ...string) []string {
		return append([]string{"run", ptx, "--device=soft", "--kernel", "vector_add", "--grid", "1", "--block", "256"}, more...)
	}
	good := []string{"in:f32=iota[16]", "in:f32=iota[16]", "out:f32=[16]", "u64=16"}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"run", "absent.ptx", "--kernel", "k", "--grid", "1", "--block", "1"}, []string{"absent.ptx"}},
		{[]string{"run", bad, "--kernel", "k", "--grid", "1", "--block", "1"}, []string{"bad.ptx:6:", "\tret ret;\n", "^"}},
		{[]string{"run", ptx, "--kernel", "vector_sub", "--grid", "1", "--block", "1"}, []string{`"vector_sub"`, "vector_add, increment, copy, fill"}},
		{add("u64=1"), []string{"kernel vector_add has 4 parameters, but 1 argument was given", "(no argument)"}},
		{add(good[0], good[1], good[2], "u32=16"), []string{"u32 has 4 bytes, but the parameter has 8: write u64=16"}},
		{add("in:f32=@absent", good[1], good[2], good[3]), []string{"absent"}},
		{append(add(good...), "--block", "1025"), []string{"1024"}},
		{append(add(good...), "--grid", "1,65536"), []string{"65535"}},
		{append(add(good...), "--shared", "1000000000"), []string{"shared memory"}},
		{append(add(good...), "--device", "soft:fermi-c2050", "--memory", "managed"), []string{"managed"}},
		{add(good[0], good[1], "out:f32=[99999999999]", good[3]), []string{"CUDA_ERROR_OUT_OF_MEMORY", "out:f32=[99999999999]"}},
		{add(good[0], good[1], good[2], "u64=1000000"), []string{"CUDA_ERROR_ILLEGAL_ADDRESS", "thread (", "block (", "kernels.ptx:", "out:f32=[16]: 64 bytes from 0x"}},
		{add("u64=2", "u64=2", "u64=2", "u64=4"), []string{"CUDA_ERROR_"}},
	} {
		status, out, errs := ferryRun(c.args...)
		if status != exitError || out != "" {
			t.Errorf("%q: status %d, stdout %q", c.args, status, out)
		}
		for _, w := range c.want {
			if !strings.Contains(errs, w) {
				t.Errorf("%q: got\n%s\nwant it to say %q", c.args, errs, w)
			}
		}
	}
}

// TestRunWarns passes a float as an integer. The launch succeeds, with a warning on
// stderr.
func TestRunWarns(t *testing.T) {
	status, out, errs := ferryRun("run", shipped(t), "--device", "soft", "--kernel", "fill", "--grid", "1", "--block", "32",
		"out:f32=[4]", "f32=1.5", "u64=4", "--json")
	if status != exitOK || !strings.Contains(out, `"values": [1.5, 1.5, 1.5, 1.5]`) || !strings.Contains(errs, "its bits are passed as they are") {
		t.Errorf("status %d, stdout %s, stderr %s", status, out, errs)
	}
}

func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	status := run(ctx, []string{"run", shipped(t), "--device", "soft", "--kernel", "increment", "--grid", "1", "--block", "32", "inout:f32=[4]", "u64=4"}, &out, &errs)
	if status != exitInterrupted || out.Len() > 0 || errs.String() != "ferry run: interrupted\n" {
		t.Errorf("status %d, stdout %q, stderr %q", status, out.String(), errs.String())
	}
}

// printPTX is a kernel that prints a line.
const printPTX = `.version 7.0
.target sm_75
.address_size 64
.global .align 1 .b8 text[7] = {104, 101, 108, 108, 111, 10, 0};
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.visible .entry hello() {
	.reg .b64 %d<2>;
	cvta.global.u64 %d1, text;
	{
	.param .b64 f;
	.param .b64 a;
	.param .b32 r;
	st.param.b64 [f], %d1;
	st.param.b64 [a], 0;
	call (r), vprintf, (f, a);
	}
	ret;
}
`

// TestRunPrintf: with --json the output of a kernel is in the document and on standard
// error, not before the document.
func TestRunPrintf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hello.ptx")
	if err := os.WriteFile(path, []byte(printPTX), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = w
	defer func() { os.Stdout = stdout }()
	status, out, errs := ferryRun("run", path, "--device", "soft", "--kernel", "hello", "--grid", "1", "--block", "2", "--json")
	w.Close()
	rest, err := io.ReadAll(r)
	if err != nil || len(rest) > 0 {
		t.Errorf("standard output has %q before the document (%v)", rest, err)
	}
	if os.Stdout != w {
		t.Error("standard output was not given back")
	}
	var doc struct{ Printf string }
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Printf != "hello\nhello\n" || errs != doc.Printf || status != exitOK {
		t.Errorf("status %d, stdout %s, stderr %q: %v", status, out, errs, err)
	}
}

// TestRunManyRegisters: registers that are declared and not used cost nothing.
func TestRunManyRegisters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "many.ptx")
	text := ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n\t.reg .pred %p<1000000000>;\n\tsetp.eq.u32 %p999999999, 1, 1;\n\tret;\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, "run", path, "--device", "soft", "--kernel", "k", "--grid", "1", "--block", "32")
}

func TestRunLimit(t *testing.T) {
	t.Setenv(softgpu.LimitVariable, "") // the flag sets it
	path := filepath.Join(t.TempDir(), "forever.ptx")
	if err := os.WriteFile(path, []byte(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry forever()\n{\nagain:\n\tbra again;\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := ferryRun("run", path, "--device", "soft", "--kernel", "forever", "--grid", "1", "--block", "32", "--limit", "30ms")
	if status != exitError || out != "" || !strings.Contains(errs, "CUDA_ERROR_LAUNCH_TIMEOUT") || !strings.Contains(errs, "longer than the limit of 30ms") {
		t.Errorf("status %d, stdout %q, stderr %q", status, out, errs)
	}
}

// checked returns the command line that checks a kernel of the races' corpus.
func checked(file, kernel string, more ...string) []string {
	path := filepath.Join("..", "..", "softgpu", "internal", "simt", "testdata", "races", file)
	return append([]string{"run", path, "--device=soft", "--check=races", "--kernel", kernel, "--grid=2", "--block=64",
		"inout:u32=iota[4096]", "out:u32=[256]", "u32=64"}, more...)
}

// TestRunCheck looks for races in a kernel that has one, and in one that has none.
func TestRunCheck(t *testing.T) {
	t.Setenv(softgpu.CheckVariable, "")
	status, out, errs := ferryRun(checked("global.ptx", "racy_in_place_shift_2x64", "--json")...)
	if status != exitFound {
		t.Fatalf("status %d: %s", status, errs)
	}
	var doc struct{ Findings []softgpu.Finding }
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Findings) != 1 {
		t.Fatalf("findings: %+v", doc.Findings)
	}
	f := doc.Findings[0]
	first := f.First
	if f.Second.At != "" {
		t.Errorf("the finding names a line of Ferry's: %s", f.Second.At)
	}
	if f.Kind != "race" || f.Offset != 4 || f.Bytes != 4 || f.Count < 64 || !strings.HasPrefix(f.Memory, "a 16384-byte device allocation at 0x") ||
		!strings.Contains(f.Missing, "blocks of one launch are not ordered") {
		t.Errorf("finding: %+v", f)
	}
	if first == nil || first.Access != "read" || first.Thread != [3]uint32{0, 0, 0} || !strings.HasSuffix(first.Source, "global.cu:20") || first.Op != "ld.global.b32" {
		t.Errorf("first: %+v", first)
	}
	if s := f.Second; s.Access != "write" || s.Value == nil || *s.Value != 2 || s.Thread != [3]uint32{1, 0, 0} || !strings.HasSuffix(s.Source, "global.cu:21") {
		t.Errorf("second: %+v", s)
	}
	text := standardError(t, checked("global.ptx", "racy_in_place_shift_2x64"))
	for _, want := range []string{"softgpu: race in kernel racy_in_place_shift_2x64: 4 bytes at offset 4 of a 16384-byte device allocation", "write of 0x2 by thread (1,0,0) of block (0,0,0): st.global.b32, PTX line", "missing: "} {
		if !strings.Contains(text, want) {
			t.Errorf("standard error has no %q", want)
		}
	}
	if status, out, errs := ferryRun(checked("global.ptx", "ok_in_place_shift_2x64", "--json")...); status != exitOK || !strings.Contains(out, `"findings": []`) {
		t.Errorf("status %d: %s %s", status, out, errs)
	}
	if status, _, errs := ferryRun(checked("global.ptx", "ok_in_place_shift_2x64", "--check=all")...); status != exitUsage || !strings.Contains(errs, `check "all" is not known, must be 1 or a list of: races`) {
		t.Errorf("status %d: %s", status, errs)
	}
}

// standardError returns what a command line writes to the process's standard error.
func standardError(t *testing.T, args []string) string {
	t.Helper()
	old := os.Stderr
	defer func() { os.Stderr = old }()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	os.Stderr = file
	ferryRun(args...)
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRunFindingsOfAFault: findings of a kernel that then faults are in the document, which is
// marked as partial. Without a check there is no document.
func TestRunFindingsOfAFault(t *testing.T) {
	t.Setenv(softgpu.CheckVariable, "")
	path := filepath.Join(t.TempDir(), "x.ptx")
	const text = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .b64 %a;\n.reg .b32 %x;\nld.param.u64 %a, [p];\n" +
		"mov.u32 %x, %tid.x;\nst.global.u32 [%a], %x;\nbar.sync 0;\nst.global.u32 [%a+1234567892], %x;\nret;\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", path, "--kernel", "k", "--grid", "1", "--block", "64", "out:u32=[4]", "--device", "soft", "--json"}
	status, out, errs := ferryRun(append(args, "--check")...)
	var doc struct {
		Partial  string
		Findings []struct{ Kernel, Memory string }
		Outputs  []any
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("status %d, output %q, errors %q: %v", status, out, errs, err)
	}
	if status != exitError || len(doc.Findings) == 0 || doc.Findings[0].Kernel != "k" || doc.Outputs == nil || len(doc.Outputs) != 0 || !strings.Contains(doc.Partial, "CUDA_ERROR_ILLEGAL_ADDRESS") {
		t.Errorf("status %d, output %s", status, out)
	}
	if !strings.Contains(errs, "CUDA_ERROR_ILLEGAL_ADDRESS") || !strings.Contains(errs, "marked as partial") {
		t.Errorf("errors %q", errs)
	}
	t.Setenv(softgpu.CheckVariable, "")
	if status, out, _ := ferryRun(args...); status != exitError || out != "" {
		t.Errorf("without a check: status %d, output %q", status, out)
	}
}
