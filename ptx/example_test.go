package ptx_test

import (
	"fmt"

	"github.com/ferrygpu/ferry/ptx"
)

func ExampleParse() {
	m, err := ptx.Parse("increment.ptx", `
.version 8.0
.target sm_80
.address_size 64
.visible .entry increment(.param .u64 data, .param .u32 by)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [data];
	ld.param.u32 %r1, [by];
	mov.u32 %r2, %tid.x;
	mul.wide.u32 %rd2, %r2, 4;
	add.s64 %rd3, %rd1, %rd2;
	red.global.add.u32 [%rd3+16], %r1;
	ret;
}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range m.Entries() {
		fmt.Println(f.Name)
		layout, total := f.ParamLayout()
		for _, p := range layout {
			fmt.Printf("  %s at byte %d of %d: %s\n", p.Name, p.Offset, total, p.Type)
		}
		for _, in := range f.Body[3:6] {
			fmt.Println(" ", in.Op, in.Mods, "in line", in.Pos.Line, "is", &in)
		}
	}
	// Output:
	// increment
	//   data at byte 0 of 12: u64
	//   by at byte 8 of 12: u32
	//   mul [wide u32] in line 12 is mul.wide.u32 %rd2, %r2, 4
	//   add [s64] in line 13 is add.s64 %rd3, %rd1, %rd2
	//   red [global add u32] in line 14 is red.global.add.u32 [%rd3+16], %r1
}

func ExampleError() {
	_, err := ptx.Parse("k.ptx", `.version 8.0
.target sm_80
.visible .entry k()
{
	.reg .b32 %r<4>;
	mov.u32	%r4, %tid.x;
	bra	Done;
done:	ret;
}`)
	fmt.Println(err)
	// Output:
	// k.ptx:6:10: register %r4 is not declared: %r<4> at 5:12 ends at %r3
	// 	mov.u32	%r4, %tid.x;
	// 	       	^
	// k.ptx:7:6: label Done is not defined in k (did you mean done?)
	// 	bra	Done;
	// 	   	^
}
