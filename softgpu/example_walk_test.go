package softgpu_test

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// open returns a software GPU that emulates a machine, and its primary context.
func open(machine string) (*softgpu.Driver, cu.Context) {
	p, err := profile.Named(machine)
	if err != nil {
		panic(err)
	}
	d, err := softgpu.Open(softgpu.Options{Profile: p})
	if err != nil {
		panic(err)
	}
	if err := d.Init(0); err != nil {
		panic(err)
	}
	ctx, err := d.DevicePrimaryCtxRetain(0)
	if err != nil {
		panic(err)
	}
	return d, ctx
}

// For an address past the end of an allocation the walk shows where it stops.
func ExampleWalk_fault() {
	d, ctx := open("a100")
	p, err := d.MemAlloc(ctx, 4<<20)
	fmt.Printf("%#x %v\n", uint64(p), err)
	w, err := d.Walk(ctx, p+4<<20, softgpu.Kernel, true)
	fmt.Println(err)
	fmt.Print(w)
	// Output:
	// 0x1000000000000 <nil>
	// <nil>
	// kernel of device 0 writes 0x1000000400000, no memory of this program: fault
	//   GPU MMU  PDE3[2] table                                                    120 ns
	//            PDE2[0] table                                                    120 ns
	//            PDE1[0] table                                                    120 ns
	//            PDE0[2] invalid                                                  120 ns
	//   fault    nothing at PDE0[2]: just past the end of a 4194304-byte device allocation at 0x1000000000000: CUDA_ERROR_ILLEGAL_ADDRESS
}
