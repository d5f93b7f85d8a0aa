package oracle

import (
	"fmt"
	"strconv"
	"strings"
)

// warpKernel tests instructions that the lanes of a warp run together.
func warpKernel(k *kernel) bool {
	f := k.form
	sync := ""
	if f.has("sync") {
		sync = ", 0xffffffff"
	}
	switch f.op {
	case "shfl":
		k.in = one("b32", "shift32", "b32")
		k.code = "and.b32 %r1, $c, 0x1f1f;\n" + f.text + " %d|%p1, $a, $b, %r1" + sync + ";"
		k.out = []word{{"%d", 32}, {"%p1", 1}}
	case "vote":
		k.in = one("even32")
		k.code = "shr.u32 %r1, %id, 5;\nsetp.lt.u32 %p1, $a, %r1;\n" + f.text
		if f.has("ballot") {
			k.code += " %d, !%p1" + sync + ";"
			k.out = []word{{"%d", 32}}
		} else {
			k.code += " %p2, %p1" + sync + ";"
			k.out = []word{{"%p2", 1}}
		}
	case "match":
		k.in = one("even" + strconv.Itoa(typeBits[f.last()]))
		k.code, k.out = f.text+" %d, $a, 0xffffffff;", []word{{"%d", 32}}
		if f.has("all") {
			k.code = "setp.lt.u32 %p2, %id, 64;\n@%p2 mov.b" + strconv.Itoa(typeBits[f.last()]) + " %a0, 5;\n" + f.text + " %d|%p1, $a, 0xffffffff;"
			k.out = append(k.out, word{"%p1", 1})
		}
	case "redux":
		k.in = one("b32")
		k.code, k.out = f.text+" %d, $a, 0xffffffff;", []word{{"%d", 32}}
	case "activemask":
		k.code, k.out = "mov.b32 %d, 0;\nand.b32 %r1, %t, 3;\nsetp.eq.u32 %p1, %r1, 1;\n@%p1 activemask.b32 %d;", []word{{"%d", 32}}
	case "elect":
		k.code, k.out = "elect.sync %d|%p1, 0xffffffff;", []word{{"%d", 32}, {"%p1", 1}}
	default:
		return false
	}
	return true
}

const adder = ".func (.param .b32 r) f(.param .b32 x) {\n\t.reg .b32 %r<3>;\n\t.reg .pred %p;\n\tld.param.u32 %r1, [x];\n\tsetp.gt.u32 %p, %r1, 3;\n\t@%p RET;\n\tadd.u32 %r1, %r1, 7;\n\tst.param.b32 [r], %r1;\n\tret;\n}\n"

// controlKernel tests branches and calls. A trap has no result: its kernel runs it
// under a predicate that is never true.
func controlKernel(k *kernel) bool {
	f := k.form
	k.out = []word{{"%d", 32}}
	k.in = one("even32")
	switch f.op {
	case "bra":
		k.code = "mov.u32 %d, 1;\nsetp.gt.u32 %p1, $a, 1;\n@%p1 bra A;\nadd.u32 %d, %d, 2;\n" + f.text + " B;\nA: add.u32 %d, %d, 4;\nB: add.u32 %d, %d, 8;"
	case "brx":
		k.code = "mov.u32 %d, 1;\nT: .branchtargets A, B, C, A;\n" + f.text + " $a, T;\nA: add.u32 %d, %d, 2;\nB: add.u32 %d, %d, 4;\nC: add.u32 %d, %d, 8;"
		if f.has("uni") {
			k.code = strings.Replace(k.code, " $a, T", " %r1, T", 1)
			k.code = "mov.u32 %r1, 1;\n" + k.code
		}
	case "call", "ret":
		ret, call := "ret", "call.uni"
		if f.op == "ret" {
			ret = f.text
		} else {
			call = f.text
		}
		k.decl = strings.Replace(adder, "RET", "bra E", 1)
		k.decl = strings.Replace(k.decl, "\tret;\n}", "E:\t"+ret+";\n}", 1)
		k.code = "{\n.param .b32 x;\n.param .b32 r;\nst.param.b32 [x], $a;\n" + call + " (r), f, (x);\nld.param.b32 %d, [r];\n}"
	case "exit":
		k.code = "mov.u32 %d, 1;\nst.global.u32 [%out], $a;\nsetp.eq.u32 %p1, $a, 2;\n@%p1 exit;"
	case "trap", "brkpt":
		k.code = "mov.u32 %d, 1;\nsetp.gt.u32 %p1, $a, 5;\n@%p1 " + f.text + ";"
	case "nanosleep":
		k.code = "mov.u32 %d, 1;\nnanosleep.u32 $a;"
	case "pmevent":
		k.code = "mov.u32 %d, 1;\n" + f.text + " 1;"
	case "griddepcontrol":
		k.code = "mov.u32 %d, 1;\n" + f.text + ";"
	case "setmaxnreg":
		n := "232"
		if f.has("dec") {
			n = "24"
		}
		k.code = "mov.u32 %d, 1;\n" + f.text + " " + n + ";"
	default:
		return false
	}
	return true
}

// barrierKernel tests barriers and fences. Each thread reads the value of a neighbour
// from shared memory.
func barrierKernel(k *kernel) bool {
	f := k.form
	k.in = one("even32")
	k.out = []word{{"%d", 32}}
	const give, take = "st.shared.u32 [%sh], $a;\n", "xor.b32 %r1, %t, 1;\nmov.u32 %r2, sh;\nmad.lo.u32 %r2, %r1, 64, %r2;\nld.shared.u32 %d, [%r2];"
	switch {
	case f.op == "membar" || f.op == "fence":
		k.code = give + f.text + ";\nbar.sync 0;\n" + take
	case f.op != "bar" && f.op != "barrier":
		return false
	case f.has("cluster"): // of one block
		before, after := give, ""
		if f.has("relaxed") {
			before += "membar.cta;\n"
		}
		if f.has("wait") {
			before += "barrier.cluster.arrive;\n"
		} else {
			after = "barrier.cluster.wait;\n"
		}
		k.code = before + f.text + ";\n" + after + take
	case f.has("warp"):
		k.code = give + "bar.warp.sync 0xffffffff;\n" + take
	case f.has("red"):
		k.code = "setp.gt.u32 %p1, $a, 0;\nsetp.lt.u32 %p2, %id, 128;\nor.pred %p1, %p1, %p2;\n"
		if f.has("popc") {
			k.code += f.text + " %d, 3, %p1;\n" + f.text + " %e, 4, 128, !%p1;"
			k.out = append(k.out, word{"%e", 32})
		} else {
			k.code += f.text + " %p3, 3, 128, %p1;\n" + f.text + " %p4, 0, !%p1;"
			k.out = []word{{"%p3", 1}, {"%p4", 1}}
		}
	case f.has("arrive"):
		wait := strings.Replace(f.text, "arrive", "sync", 1)
		k.code = give + "setp.lt.u32 %p1, %t, 64;\n@%p1 bra A;\n" + f.text + " 2, 128;\nbra.uni B;\nA: " + wait + " 2, 128;\nB: bar.sync 0;\n" + take
	default:
		k.code = give + f.text + " 1, 128;\n" + take
		if f.op == "bar" {
			k.code = give + f.text + " 0;\n" + take + "\n" + f.text + " 5, 128;"
		}
	}
	return true
}

// mbarrierKernel tests mbarrier. Each thread has its own object.
func mbarrierKernel(k *kernel) bool {
	f := k.form
	if f.op != "mbarrier" && !(f.op == "cp" && f.has("mbarrier")) {
		return false
	}
	addr := "%sh"
	if f.any("shared", "shared::cta") == "" {
		addr = "%x5"
	}
	k.code = "cvt.u64.u32 %x4, %sh;\ncvta.shared.u64 %x5, %x4;\nmbarrier.init.shared.b64 [%sh], 3;\n"
	wait := func(i int, parity int) string {
		return fmt.Sprintf("mbarrier.test_wait.parity.shared.b64 %%p%d, [%%sh], %d;\n", i, parity)
	}
	k.out = []word{{"%p1", 1}, {"%p2", 1}, {"%p3", 1}}
	arrive := "mbarrier.arrive.shared.b64 %x1, [%sh];\n"
	switch {
	case f.op == "cp":
		k.code += arrive + wait(1, 0) + arrive + f.text + " [" + addr + "];\ncp.async.wait_all;\n"
		k.out = []word{{"%p1", 1}, {"%p3", 1}}
		if f.has("noinc") {
			k.code += "L: mbarrier.test_wait.parity.shared.b64 %p3, [%sh], 0;\n@!%p3 bra L;\n"
		} else {
			k.code += arrive + "L: mbarrier.test_wait.parity.shared.b64 %p3, [%sh], 0;\n@!%p3 bra L;\n"
		}
	case f.has("init"):
		k.code += f.text + " [" + addr + "], 2;\n" + arrive + wait(1, 0) + arrive + wait(2, 0) + wait(3, 1)
	case f.has("inval"):
		k.code += arrive + wait(1, 0) + f.text + " [" + addr + "];\nst.shared.b64 [%sh], %off;\nmbarrier.init.shared.b64 [%sh], 1;\n" + wait(2, 0) + arrive + wait(3, 0)
	case f.has("pending_count"):
		k.code += arrive + f.text + " %r1, %x1;\n" + arrive + f.text + " %r2, %x1;\n" + arrive + f.text + " %r3, %x1;\n" + arrive + f.text + " %r4, %x1;\n"
		k.out = []word{{"%r1", 32}, {"%r2", 32}, {"%r3", 32}, {"%r4", 32}}
	case f.any("test_wait", "try_wait") != "" && f.has("parity"):
		k.code += strings.ReplaceAll("F %p1, [A], 1;\nF %p2, [A], 0;\n"+arrive+arrive+arrive+"F %p3, [A], 0;\n", "F ", f.text+" ")
		k.code = strings.ReplaceAll(k.code, "[A]", "["+addr+"]")
	case f.any("test_wait", "try_wait") != "":
		k.code += strings.ReplaceAll(arrive+"F %p1, [A], %x1;\n"+arrive+arrive+"F %p2, [A], %x1;\n"+arrive+"F %p3, [A], %x1;\n", "F ", f.text+" ")
		k.code = strings.ReplaceAll(k.code, "[A]", "["+addr+"]")
	case f.has("noComplete"):
		k.code += f.text + " %x2, [" + addr + "], 2;\nmbarrier.pending_count.b64 %r1, %x2;\n" + wait(1, 0) + arrive + wait(2, 0) + wait(3, 1)
		k.out = append(k.out, word{"%r1", 32})
	case f.any("arrive", "arrive_drop") != "" && f.has("expect_tx"):
		k.code += f.text + " %x2, [" + addr + "], 64;\n" + arrive + arrive + wait(1, 0) + "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%sh], 64;\n" + wait(2, 0) + arrive + arrive + wait(3, 1)
	case f.has("expect_tx"):
		k.code += f.text + " [" + addr + "], 32;\n" + arrive + arrive + arrive + wait(1, 0) + "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%sh], 32;\n" + wait(2, 0) + wait(3, 1)
	case f.has("complete_tx"):
		k.code += "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%sh], 32;\n" + arrive + arrive + arrive + wait(1, 0) + f.text + " [" + addr + "], 12;\n" + wait(2, 0) + f.text + " [" + addr + "], 20;\n" + wait(3, 0)
	case f.has("arrive_drop"):
		k.code += f.text + " %x2, [" + addr + "];\n" + arrive + wait(1, 0) + arrive + wait(2, 0) + arrive + arrive + wait(3, 1)
	default:
		k.code += f.text + " %x2, [" + addr + "];\n" + wait(1, 0) + f.text + " %x2, [" + addr + "], 2;\n" + wait(2, 0) + arrive + wait(3, 1)
	}
	k.code = strings.TrimSuffix(k.code, "\n")
	return true
}
