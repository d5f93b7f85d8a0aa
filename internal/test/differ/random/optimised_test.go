package random

import (
	"regexp"
	"testing"
)

// folds explain optimisations of ptxas that contradict the ISA. Each was seen on an H200
// with driver 580.159.04. A pattern matches programs that [Shrink] has reduced. It does not
// prove that the optimiser is at fault: only the program compiled without optimisation
// does.
var folds = []struct {
	program *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`(?s)L\d+:.*mad\.hi\.[su](16|32) .*bra`), "in a loop that adds the same upper half of a product, every second iteration is lost"},
	{regexp.MustCompile(`(abs|neg)\.s32 _, _;\s*\S*\s*(or\.b32 _, _, _;\s*rem\.s32|cvt\.sat|slct)`), "abs and neg of -2^31 are taken for 2^31"},
	{regexp.MustCompile(`add\.[su]32 _, _, _;\s*sub\.sat\.s32`), "a-(a+c) is -c even where a+c overflows"},
	{regexp.MustCompile(`(and\.b16|selp\.b16|mov\.b32|or\.b16).*\s*.*(min|max)\.\S*(f16|f16x2|bf16) `), "the larger of a register and itself is that register, although NaN should become canonical"},
	{regexp.MustCompile(`cnot\.b32 _, _;\s*(cvt\.sat\.[su](8|16)|sh[lr]\.[bsu]16)`), "operations of 16 bits on a cnot use zero"},
	{regexp.MustCompile(`cvt\.r.i\S*\.[su](32|64)\.f(32|64) _, _;\s*cvt\.(sat|r.\.f)`), "two conversions are merged into one with other limits"},
	{regexp.MustCompile(`(?s)(L\d+:.*@!?_ cvt\.r.\.f16\.s32 |cvt\.rn\.satfinite\.\S*x2\.f32 ).*mov\.b32 _, \{_, _\}`), "the halves of a pair get one register"},
	{regexp.MustCompile(`(?s)cvt\.r.i\.[su]8\.f32 .*(bra|L\d+:)`), "a conversion to 8 bits keeps the upper half of its register where paths join"},
	{regexp.MustCompile(`set\.\S*\.u32\.[su]32 _, _, _;\s*set\.`), "the result of set, all ones, is taken for 1 by a set after it"},
	{regexp.MustCompile(`lop3\.b32 _, _, _, _, _;\s*(and|or|xor)\.b32`), "a lop3 with one register twice and another operation are merged into one wrong lop3"},
}

// folded returns the explanation of a kind of disagreement, or "" if no pattern matches.
func folded(kind string) string {
	for _, f := range folds {
		if f.program.MatchString(kind) {
			return f.why
		}
	}
	return ""
}

// TestFolded checks that the patterns match the programs that were seen, and no simpler
// ones.
func TestFolded(t *testing.T) {
	for kind, want := range map[string]bool{
		"\tmov.u32 _, _;\nL1:\n\tmad.hi.u32 _, _, _, _;\n\tadd.u32 _, _, _;\n\tsetp.lt.u32 %q, _, _;\n\t@%q bra L_;\n": true,
		"\tabs.s32 _, _;\n\tcvt.sat.u64.s32 _, _;\n":               true,
		"\tadd.u32 _, _, _;\n\tsub.sat.s32 _, _, _;\n":             true,
		"\tcnot.b32 _, _;\n\tcvt.sat.u16.u32 _, _;\n":              true,
		"\tcvt.rmi.ftz.u32.f32 _, _;\n\tcvt.sat.s16.u32 _, _;\n":   true,
		"\tand.b16 _, _, _;\n\tmax.f16 _, _, _;\n":                 true,
		"\tabs.s32 _, _;\n\tor.b32 _, _, _;\n\trem.s32 _, _, _;\n": true,
		"\tset.lt.u32.s32 _, _, _;\n\tset.eq.u32.s32 _, _, _;\n":   true,
		"\tlop3.b32 _, _, _, _, _;\n\tor.b32 _, _, _;\n":           true,
		"\t@_ bra L1;\n\t@!_ cvt.rzi.u8.f32 _, _;\nL1:\n":          true,
		"\tcvt.rzi.s8.f32 _, _;\n":                                 false,
		"\tor.b32 _, _, _;\n\trem.s32 _, _, _;\n":                  false,
		"\tset.lt.u32.s32 _, _, _;\n":                              false,
		"\tmad.hi.u32 _, _, _, _;\n":                               false,
		"\tabs.s32 _, _;\n":                                        false,
		"\tfma.rn.ftz.f16x2 _, _, _, _;\n":                         false,
		"\tmax.f16 _, _, _;\n":                                     false,
	} {
		if got := folded(kind) != ""; got != want {
			t.Errorf("%q: a pattern matches: %v, want %v", kind, got, want)
		}
	}
}
