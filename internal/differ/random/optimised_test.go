package random

import (
	"regexp"
	"testing"
)

// folds are names for what ptxas's optimiser makes of small programs against the
// ISA's word, each seen on an H200 with driver 580.159.04. They are patterns of
// programs that [Shrink] has taken to their core. That it is the optimiser is not
// theirs to say: a program compiled without it tells.
var folds = []struct {
	program *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`(?s)L\d+:.*mad\.hi\.[su](16|32) .*bra`), "of the turns of a loop that adds the same upper half of a product, every other one is lost"},
	{regexp.MustCompile(`(abs|neg)\.s32 _, _;\s*\S*\s*(or\.b32 _, _, _;\s*rem\.s32|cvt\.sat|slct)`), "abs and neg of -2^31 are taken for 2^31"},
	{regexp.MustCompile(`add\.[su]32 _, _, _;\s*sub\.sat\.s32`), "a-(a+c) is -c even where a+c overflows"},
	{regexp.MustCompile(`(and\.b16|selp\.b16|mov\.b32|or\.b16).*\s*.*(min|max)\.\S*(f16|f16x2|bf16) `), "the larger of a register and itself is that register, though NaN should be the canonical one"},
	{regexp.MustCompile(`cnot\.b32 _, _;\s*(cvt\.sat\.[su](8|16)|sh[lr]\.[bsu]16)`), "16 bits of a cnot are zero"},
	{regexp.MustCompile(`cvt\.r.i\S*\.[su](32|64)\.f(32|64) _, _;\s*cvt\.(sat|r.\.f)`), "two conversions become one, which stops at other limits"},
	{regexp.MustCompile(`(?s)(L\d+:.*@!?_ cvt\.r.\.f16\.s32 |cvt\.rn\.satfinite\.\S*x2\.f32 ).*mov\.b32 _, \{_, _\}`), "the halves of a pair get one register"},
	{regexp.MustCompile(`(?s)cvt\.r.i\.[su]8\.f32 .*(bra|L\d+:)`), "a conversion to 8 bits leaves the upper half of its register where paths meet"},
	{regexp.MustCompile(`set\.\S*\.u32\.[su]32 _, _, _;\s*set\.`), "what set gives is taken for 1 by a set"},
	{regexp.MustCompile(`lop3\.b32 _, _, _, _, _;\s*(and|or|xor)\.b32`), "of a lop3 with a register twice and another operation one lop3 is made, a wrong one"},
}

// folded is why the optimiser explains a kind of disagreement, "" where it does not.
func folded(kind string) string {
	for _, f := range folds {
		if f.program.MatchString(kind) {
			return f.why
		}
	}
	return ""
}

// TestFolded: the patterns fit the programs that they are from, and no simpler ones.
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
			t.Errorf("%q: explained is %v, want %v", kind, got, want)
		}
	}
}
