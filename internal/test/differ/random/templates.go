package random

// templates are instructions, or a few that belong together. The pattern <a|b|c> stands
// for one of several texts. Registers that are written have upper-case letters: $R 32
// bits, $D 64 bits, $F f32, $G f64, $H 16 bits, $X f16x2, $P a predicate. Registers that
// are read have lower-case letters. $i is a register of 32 bits or a constant, $j one of
// 64 bits or a constant. $n is a constant below 32, $b a constant below 256. $q is a
// rounding: .rn, .rz, .rm or .rp.
var templates = []string{
	// 32 bits
	"add<.sat|>.s32 $R, $r, $i;", "sub<.sat|>.s32 $R, $r, $i;", "add.u32 $R, $r, $i;",
	"mul.<lo|hi>.<s|u>32 $R, $r, $i;", "mad.<lo|hi>.<s|u>32 $R, $r, $i, $r;", "mad.hi.sat.s32 $R, $r, $i, $r;",
	"mul24.<lo|hi>.<s|u>32 $R, $r, $i;", "mad24.<lo|hi>.<s|u>32 $R, $r, $r, $r;", "sad.<s|u>32 $R, $r, $r, $r;",
	"or.b32 %t0, $r, 1;\n\t<div|rem>.<s|u>32 $R, $r, %t0;",
	"abs.s32 $R, $r;", "neg.s32 $R, $r;", "<min|max>.<s|u>32 $R, $r, $i;",
	"<and|or|xor>.b32 $R, $r, $i;", "<not|cnot>.b32 $R, $r;", "shl.b32 $R, $r, $i;", "shr.<s|u|b>32 $R, $r, $i;",
	"shf.<l|r>.<wrap|clamp>.b32 $R, $r, $r, $i;", "lop3.b32 $R, $r, $r, $r, $b;",
	"prmt.b32<|.f4e|.b4e|.rc8|.ecl|.ecr|.rc16> $R, $r, $r, $i;",
	"<popc|clz|brev>.b32 $R, $r;", "bfind<|.shiftamt>.<s|u>32 $R, $r;",
	"and.b32 %t0, $r, 255;\n\tand.b32 %t1, $r, <31|63|255>;\n\tbfe.<s|u>32 $R, $r, %t0, %t1;", "and.b32 %t0, $r, <31|255>;\n\tbfi.b32 $R, $r, $r, %t0, $b;",
	"and.b32 %t0, $r, 63;\n\tsub.u32 %t0, %t0, 31;\n\tfns.b32 $R, $r, $n, %t0;", "bmsk.<clamp|wrap>.b32 $R, $r, $i;", "szext.<clamp|wrap>.<s|u>32 $R, $r, $i;",
	"dp4a.<s|u>32.<s|u>32 $R, $r, $r, $r;", "dp2a.<lo|hi>.<s|u>32.<s|u>32 $R, $r, $r, $r;",
	"add.cc.u32 %t0, $r, $i;\n\taddc.u32 $R, $r, $i;", "sub.cc.u32 %t0, $r, $i;\n\tsubc.u32 $R, $r, $i;",
	"mad.lo.cc.u32 %t0, $r, $r, $r;\n\tmadc.hi.u32 $R, $r, $r, $r;", "add.cc.s32 $R, $r, $r;\n\taddc.cc.s32 %t0, $r, $r;\n\taddc.s32 $R, %t0, $i;",
	// 64 bits
	"<add|sub>.s64 $D, $d, $j;", "mul.lo.s64 $D, $d, $j;", "mul.hi.<s|u>64 $D, $d, $j;", "mad.<lo|hi>.<s|u>64 $D, $d, $d, $d;",
	"mul.wide.<s|u>32 $D, $r, $i;", "mad.wide.<s|u>32 $D, $r, $i, $d;", "or.b64 %u0, $d, 1;\n\t<div|rem>.<s|u>64 $D, $d, %u0;",
	"<abs|neg>.s64 $D, $d;", "<min|max>.<s|u>64 $D, $d, $j;", "<and|or|xor>.b64 $D, $d, $j;", "not.b64 $D, $d;",
	"shl.b64 $D, $d, $i;", "shr.<s|u>64 $D, $d, $i;", "<popc|clz>.b64 $R, $d;", "brev.b64 $D, $d;", "bfind<|.shiftamt>.<s|u>64 $R, $d;",
	"and.b32 %t0, $r, <63|255>;\n\tand.b32 %t1, $r, <63|255>;\n\tbfe.<s|u>64 $D, $d, %t0, %t1;",
	"and.b32 %t0, $r, <63|255>;\n\tbfi.b64 $D, $d, $d, %t0, $b;", "sad.<s|u>64 $D, $d, $d, $d;",
	"add.cc.u64 %u0, $d, $j;\n\taddc.u64 $D, $d, $j;", "mov.b64 $D, {$r, $r};", "mov.b64 {$R, %t0}, $d;",
	// 16 bits
	"<add|sub>.<s|u>16 $H, $h, $h;", "mul.<lo|hi>.<s|u>16 $H, $h, $h;", "mul.wide.<s|u>16 $R, $h, $h;", "mad.<lo|hi>.<s|u>16 $H, $h, $h, $h;",
	"mad.wide.<s|u>16 $R, $h, $h, $r;", "<min|max>.<s|u>16 $H, $h, $h;", "<and|or|xor>.b16 $H, $h, $h;", "shl.b16 $H, $h, $n;", "shr.<s|u>16 $H, $h, $n;",
	"or.b16 %s0, $h, 1;\n\t<abs|neg>.s16 $H, %s0;", "sad.<s|u>16 $H, $h, $h, $h;",
	// comparison and selection
	"setp.<eq|ne|lt|le|gt|ge>.<s|u>32 $P, $r, $i;", "setp.<lo|ls|hi|hs>.u32 $P, $r, $i;", "setp.<eq|ne|lt|le|gt|ge>.<s|u>64 $P, $d, $j;",
	"setp.<eq|ne|lt|le|gt|ge>.<s|u>16 $P, $h, $h;", "setp.<eq|lt|ge>.<and|or|xor>.s32 $P, $r, $r, <|!>$p;",
	"setp.<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan><|.ftz>.f32 $P, $f, $f;",
	"setp.<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>.f64 $P, $g, $g;", "setp.<lt|geu|nan><|.ftz>.f16 $P, $h, $h;",
	"set.<eq|lt|ge>.u32.<s|u>32 $R, $r, $i;", "set.<ne|gt|le>.f32.s32 $F, $r, $r;", "set.<lt|neu|num><|.ftz>.<s|u>32.f32 $R, $f, $f;", "set.<gt|equ>.u32.f64 $R, $g, $g;",
	"selp.b32 $R, $r, $i, $p;", "selp.b64 $D, $d, $j, $p;", "selp.f32 $F, $f, $f, $p;", "selp.b16 $H, $h, $h, $p;",
	"slct.b32.s32 $R, $r, $r, $r;", "slct<|.ftz>.f32.f32 $F, $f, $f, $f;", "slct.u64.s32 $D, $d, $d, $r;",
	"<and|or|xor>.pred $P, $p, $p;", "not.pred $P, $p;",
	// f32
	"<add|sub|mul>$q<|.ftz><|.sat>.f32 $F, $f, $f;", "fma$q<|.ftz><|.sat>.f32 $F, $f, $f, $f;", "<div|div|div>$q<|.ftz>.f32 $F, $f, $f;",
	"<rcp|sqrt>$q<|.ftz>.f32 $F, $f;", "<min|max><|.ftz><|.NaN><|.xorsign.abs>.f32 $F, $f, $f;", "<abs|neg><|.ftz>.f32 %v0, $f;" + quiet("f32", "$F", "%v0", "0f7FFFFFFF"), "copysign.f32 $F, $f, $f;",
	"testp.<finite|infinite|number|notanumber|normal|subnormal>.f32 $P, $f;", "mov.b32 $F, $r;", "mov.b32 $R, $f;",
	// f64
	"<add|sub|mul|div>$q.f64 %w0, $g, $g;" + quiet64, "fma$q.f64 %w0, $g, $g, $g;" + quiet64, "<rcp|sqrt>$q.f64 %w0, $g;" + quiet64,
	"<min|max>.f64 %w0, $g, $g;" + quiet64, "<abs|neg>.f64 %w0, $g;" + quiet64, "copysign.f64 $G, $g, $g;", "testp.<finite|number|normal|subnormal>.f64 $P, $g;",
	"mov.b64 $G, $d;", "mov.b64 $D, $g;",
	// conversions
	"cvt.u64.u32 $D, $r;", "cvt.s64.s32 $D, $r;", "cvt.u32.u64 $R, $d;", "cvt<|.sat>.<s|u>16.<s|u>32 $H, $r;", "cvt.sat.<s|u>32.<s|u>64 $R, $d;",
	"cvt<|.sat>.<s|u>8.<s|u>32 $R, $r;", "cvt.<s|u>32.<s|u>8 $R, $r;", "cvt.<s|u>32.<s|u>16 $R, $h;", "cvt.sat.u64.s32 $D, $r;",
	"cvt.<rni|rzi|rmi|rpi><|.ftz>.<s|u>32.f32 $R, $f;", "cvt.<rni|rzi|rmi|rpi><|.ftz>.<s|u>64.f32 $D, $f;", "cvt.<rni|rzi|rmi|rpi><|.ftz>.<s|u>16.f32 $H, $f;",
	"cvt.<rni|rzi|rmi|rpi>.<s|u>32.f64 $R, $g;", "cvt.<rni|rzi|rmi|rpi>.<s|u>64.f64 $D, $g;", "cvt.<rzi|rni>.<s|u>8.f32 $R, $f;",
	"cvt$q.f32.<s|u>32 $F, $r;", "cvt$q.f32.<s|u>64 $F, $d;", "cvt$q.f64.<s|u>64 $G, $d;", "cvt.rn.f64.<s|u>32 $G, $r;", "cvt$q.f32.<s|u>16 $F, $h;", "cvt.rn.f32.<s|u>8 $F, $r;",
	"cvt$q<|.ftz><|.sat>.f32.f64 $F, $g;", "cvt<|.ftz>.f64.f32 $G, $f;", "cvt.<rni|rzi|rmi|rpi><|.ftz><|.sat>.f32.f32 $F, $f;", "cvt.<rni|rzi|rmi|rpi>.f64.f64 $G, $g;",
	"cvt<|.ftz>.sat.f32.f32 $F, $f;", "cvt$q.f16.f32 $H, $f;", "cvt.f32.f16 $F, $h;", "cvt$q.f16.f64 $H, $g;", "cvt.f64.f16 $G, $h;",
	"cvt.<rn|rz><|.relu>.f16x2.f32 $X, $f, $f;", "cvt.<rn|rz><|.relu>.bf16.f32 $H, $f;", "cvt.<rn|rz><|.relu>.bf16x2.f32 $X, $f, $f;", "cvt.rna.tf32.f32 $R, $f;",
	"cvt$q.f16.<s|u>32 $H, $r;", "cvt.<rni|rzi|rmi|rpi>.<s|u>32.f16 $R, $h;", "cvt.rn.satfinite<|.relu>.<e4m3x2|e5m2x2>.f32 $H, $f, $f;",
	"cvt.rn<|.relu>.f16x2.<e4m3x2|e5m2x2> $X, $h;", "cvt.rn.satfinite.<e4m3x2|e5m2x2>.f16x2 $H, $x;", "cvt.f32.bf16 $F, $h;",
	// halves
	"<add|sub|mul>.rn<|.ftz><|.sat>.f16 $H, $h, $h;", "fma.rn<|.ftz><|.sat|.relu>.f16 $H, $h, $h, $h;", "<abs|neg><|.ftz>.f16 %s0, $h;" + quiet("f16", "$H", "%s0", "0x7fff"),
	"<min|max><|.ftz><|.NaN><|.xorsign.abs>.f16 $H, $h, $h;", "<add|sub|mul>.rn<|.ftz><|.sat>.f16x2 $X, $x, $x;", "fma.rn<|.ftz><|.sat|.relu>.f16x2 $X, $x, $x, $x;",
	"<min|max><|.ftz><|.NaN><|.xorsign.abs>.f16x2 $X, $x, $x;", "mov.b32 $X, {$h, $h};", "mov.b32 {$H, %s0}, $x;", "mov.b32 $R, $x;",
	"<add|sub|mul>.rn.bf16 $H, $h, $h;", "fma.rn<|.relu>.bf16 $H, $h, $h, $h;", "<min|max><|.NaN><|.xorsign.abs>.bf16 $H, $h, $h;", "<abs|neg>.bf16 %s0, $h;" + quiet("bf16", "$H", "%s0", "0x7fff"),
	"fma.rn<|.relu>.bf16x2 $X, $x, $x, $x;", "<min|max><|.NaN>.bf16x2 $X, $x, $x;", "<add|sub|mul>.rn.bf16x2 $X, $x, $x;",
	// special registers
	"mov.u32 $R, <%laneid|%tid.x|%ntid.x|%lanemask_lt|%lanemask_ge>;",
}

// together are warp-wide instructions. They are used only where all threads of a warp
// execute them.
var together = []string{
	"shfl.sync.<up|down|bfly|idx>.b32 $R|$P, $r, $n, <0|31|0x1807|0x100f|0x1f00|0x181f|0x1c03>, 0xffffffff;",
	"shfl.sync.idx.b32 $R, $r, $i, 31, 0xffffffff;", "vote.sync.<any|all|uni>.pred $P, <|!>$p, 0xffffffff;", "vote.sync.ballot.b32 $R, $p, 0xffffffff;",
	"match.any.sync.b32 $R, $r, 0xffffffff;", "match.any.sync.b64 $R, $d, 0xffffffff;", "match.all.sync.b32 $R|$P, $r, 0xffffffff;",
	"redux.sync.<add|min|max>.<s|u>32 $R, $r, 0xffffffff;", "redux.sync.<and|or|xor>.b32 $R, $r, 0xffffffff;",
}

// quiet returns code that replaces a NaN in from by a fixed one. It follows operations
// whose NaN depends on ptxas. ptxas replaces abs and neg by an addition, which produces
// its own NaN, or by a change of one bit. If both operands are f64 NaN, either may be
// the result.
func quiet(typ, to, from, nan string) string {
	bits := map[string]string{"f32": "f32", "f64": "f64", "f16": "b16", "bf16": "b16"}[typ]
	return "\n\tsetp.nan." + typ + " %q, " + from + ", " + from + ";\n\tselp." + bits + " " + to + ", " + nan + ", " + from + ", %q;"
}

var quiet64 = quiet("f64", "$G", "%w0", "0dFFF8000000000000")

// carries are templates that mix additions and subtractions in one chain of carries. The
// programs up to [firstSeeds] do not have them.
var carries = []string{
	"sub.cc.u32 %t0, $r, $i;\n\taddc.u32 $R, $r, $i;", "add.cc.u32 %t0, $r, $i;\n\tsubc.u32 $R, $r, $i;",
	"<add|sub>.cc.s32 %t0, $r, $r;\n\t<addc|subc>.cc.s32 %t1, $r, $r;\n\t<addc|subc>.s32 $R, %t0, %t1;",
	"mad.lo.cc.u32 %t0, $r, $r, $r;\n\tsubc.u32 $R, $r, $i;", "<add|sub>.cc.u32 %t0, $r, $r;\n\tmadc.<lo|hi>.u32 $R, $r, $r, $r;",
	"<add|sub>.cc.u64 %u0, $d, $j;\n\t<addc|subc>.u64 $D, $d, $j;",
}

// pairs are multiplications and additions without a rounding modifier, which ptxas may join.
// The products are used by nothing else. They are only in programs without loops: ptxas unrolls
// loops, and moves products out of them. The programs up to [firstSeeds] do not have them.
var pairs = []string{
	"{ .reg .f32 %a;\n\tmul<|.rn><|.ftz><|.sat>.f32 %a, $f, $f;\n\t<add|sub><|.rn><|.ftz><|.sat>.f32 $F, %a, $f; }",
	"{ .reg .f32 %a;\n\tmul<|.rn><|.ftz><|.sat>.f32 %a, $f, $f;\n\t<add|sub><|.rn><|.ftz><|.sat>.f32 $F, $f, %a; }",
	"{ .reg .f32 %a, %b;\n\tmul.f32 %a, $f, $f;\n\t<mov|neg>.f32 %b, %a;\n\t<add|sub>.f32 $F, %b, $f; }",
	"{ .reg .f32 %a, %b;\n\tmul.f32 %a, $f, $f;\n\t<mov|neg>.f32 %b, %a;\n\t<add|sub>.f32 $F, $f, %b; }",
	"{ .reg .f32 %a, %b;\n\tmul.f32 %a, $f, $f;\n\tmul.f32 %b, $f, $f;\n\t<add|sub>.f32 $F, <%a, %b|%b, %a>; }",
	"{ .reg .f32 %a, %b;\n\tmul.f32 %a, $f, $f;\n\tadd.f32 %b, %a, $f;\n\tmul.f32 %b, %b, $f;\n\t<add|sub>.f32 $F, <%a, %b|%b, %a>; }",
	"{ .reg .f64 %a;\n\tmul.f64 %a, $g, $g;\n\t<add|sub>.f64 %w0, %a, $g; }" + quiet64,
	"{ .reg .f64 %a;\n\tmul.f64 %a, $g, $g;\n\t<add|sub>.f64 %w0, $g, %a; }" + quiet64,
	"{ .reg .f64 %a, %b;\n\tmul.f64 %a, $g, $g;\n\tmul.f64 %b, $g, $g;\n\t<add|sub>.f64 %w0, %a, %b; }" + quiet64,
	"{ .reg .b16 %a;\n\tmul<|.ftz><|.sat>.f16 %a, $h, $h;\n\t<add|sub><|.ftz><|.sat>.f16 $H, %a, $h; }",
	"{ .reg .b16 %a;\n\tmul<|.ftz><|.sat>.f16 %a, $h, $h;\n\t<add|sub><|.ftz><|.sat>.f16 $H, $h, %a; }",
	"{ .reg .b32 %a, %b;\n\tmul.f16x2 %a, $x, $x;\n\tmul.f16x2 %b, $x, $x;\n\t<add|sub>.f16x2 $X, %a, %b; }",
	"{ .reg .b32 %a, %b;\n\tmul.f16x2 %a, $x, $x;\n\tmul.f16x2 %b, $x, $x;\n\t<add|sub>.f16x2 $X, %a, $x; }",
	"{ .reg .b32 %a, %b;\n\tmul.f16x2 %a, $x, $x;\n\tmul.f16x2 %b, $x, $x;\n\t<add|sub>.f16x2 $X, $x, %b; }",
	"{ .reg .b16 %a;\n\tmul.bf16 %a, $h, $h;\n\t<add|sub>.bf16 $H, %a, $h; }",
	"{ .reg .b16 %a;\n\tmul.bf16 %a, $h, $h;\n\t<add|sub>.bf16 $H, $h, %a; }",
	"{ .reg .b32 %a;\n\tmul.bf16x2 %a, $x, $x;\n\t<add|sub>.bf16x2 $X, %a, $x; }",
	"{ .reg .b32 %a;\n\tmul.bf16x2 %a, $x, $x;\n\t<add|sub>.bf16x2 $X, $x, %a; }",
}
