package softgpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

const readOnlyPTX = `.version 8.0
.target sm_75
.address_size 64
.visible .const .align 4 .u32 factor = 3;
.visible .global .align 4 .u32 counter = 3;
.func takes_one(.param .u32 a) { ret; }
.func takes_two(.param .u64 a, .param .u64 b) { ret; }

.visible .entry constant(.param .u64 p) {
	.reg .b64 %a;
	cvta.const.u64 %a, factor;
	st.u32 [%a], 1;
	ret;
}
.visible .entry constant_as_global(.param .u64 p) {
	.reg .b64 %a;
	mov.u64 %a, factor;
	st.global.u32 [%a], 1;
	ret;
}
.visible .entry atomic_on_constant(.param .u64 p) {
	.reg .b64 %a;
	.reg .b32 %x;
	mov.u64 %a, factor;
	atom.global.add.u32 %x, [%a], 1;
	ret;
}
.visible .entry past_constant(.param .u64 p) {
	.reg .b64 %a;
	mov.u64 %a, factor;
	st.global.u32 [%a+4], 1;
	ret;
}
.visible .entry parameter(.param .u64 p) {
	.reg .b64 %a;
	mov.b64 %a, p;
	cvta.param.u64 %a, %a;
	st.u32 [%a], 1;
	ret;
}
.visible .entry variable(.param .u64 p) { st.global.u32 [counter], 1; ret; }

.visible .entry call_one(.param .u64 p) {
	.reg .b64 %a;
	mov.u64 %a, takes_one;
	proto: .callprototype _ (.param .u64 a, .param .u64 b);
	{ .param .b64 q; .param .b64 r; st.param.b64 [q], %a; st.param.b64 [r], %a; call %a, (q, r), proto; }
	ret;
}
.visible .entry call_two(.param .u64 p) {
	.reg .b64 %a;
	mov.u64 %a, takes_two;
	proto: .callprototype _ (.param .u64 a, .param .u64 b);
	{ .param .b64 q; .param .b64 r; st.param.b64 [q], %a; st.param.b64 [r], %a; call %a, (q, r), proto; }
	ret;
}

// Threads of a block store to one word of no allocation.
.visible .entry wild_race(.param .u64 p) {
	.reg .b64 %a;
	.reg .b32 %x;
	ld.param.u64 %a, [p];
	mov.u32 %x, %tid.x;
	st.global.u32 [%a], %x;
	st.global.u32 [%a+1234567892], %x;
	ret;
}
`

// TestFaultSaysReadOnly: a store to constant memory or to a parameter says that it is read only,
// and other faults do not. A call by an address with the wrong arguments names the function.
func TestFaultSaysReadOnly(t *testing.T) {
	const constant, parameter = "; constant memory is read only in kernels: the host writes it, or use a .global variable", "; the parameters of a kernel are read only: copy the parameter"
	for kernel, says := range map[string]string{
		"constant": constant, "constant_as_global": constant, "atomic_on_constant": constant, "past_constant": "", "parameter": parameter, "variable": "no fault", "call_two": "no fault",
		"call_one": "; the address is that of function takes_one, which takes 1 argument and returns 0 values; the call passes 2 and wants 0",
	} {
		t.Run(kernel, func(t *testing.T) {
			r := newRig(t, Options{})
			m, err := r.ModuleLoadData(r.ctx, []byte(readOnlyPTX))
			r.ok(err)
			f, err := r.ModuleGetFunction(r.ctx, m, kernel)
			r.ok(err)
			r.ok(r.run(f, 1, 1, 0, r.alloc(8)))
			err = r.CtxSynchronize(r.ctx)
			fault, failed := errors.AsType[*cu.Fault](err)
			switch {
			case failed != (says != "no fault"):
				t.Errorf("got %v", err)
			case !failed:
			case !strings.Contains(err.Error(), says), says == "" && strings.Contains(err.Error(), "read only"), says != constant && says != "" && fault.Near != "":
				t.Errorf("got %v, want %q", err, says)
			}
		})
	}
}

// TestFindingWithoutAllocation: a race at an address of no allocation has the address, which is no
// offset.
func TestFindingWithoutAllocation(t *testing.T) {
	r := newRig(t, Options{Check: "races"})
	m, err := r.ModuleLoadData(r.ctx, []byte(readOnlyPTX))
	r.ok(err)
	f, err := r.ModuleGetFunction(r.ctx, m, "wild_race")
	r.ok(err)
	p := r.alloc(8)
	r.ok(r.run(f, 1, 64, 0, p))
	r.want(cu.ErrorIllegalAddress, r.CtxSynchronize(r.ctx))
	wild, known := 0, 0
	for _, f := range r.Findings() {
		text := f.String()
		switch {
		case f.Address == 0:
			known++
			if !strings.Contains(text, " bytes at offset 0 of a 8-byte device allocation") || f.Offset != 0 {
				t.Errorf("got %s", text)
			}
		default:
			wild++
			if f.Address != uint64(p)+1234567892 || f.Offset != 0 || f.Memory != "no allocation" || strings.Contains(text, "offset") || !strings.Contains(text, ", where no allocation is") {
				t.Errorf("got %s: %+v", text, f)
			}
		}
	}
	if wild == 0 || known == 0 {
		t.Errorf("%d findings without an allocation, %d with one: %v", wild, known, r.Findings())
	}
}
