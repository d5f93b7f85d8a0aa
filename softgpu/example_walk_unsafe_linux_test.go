package softgpu_test

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// mapAt maps ordinary memory at a fixed address, so that the output is the same
// every time.
func mapAt(addr, bytes uintptr) cu.HostPtr {
	const noreplace = 0x100000 // MAP_FIXED_NOREPLACE
	got, _, errno := syscall.Syscall6(syscall.SYS_MMAP, addr, bytes,
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|noreplace, ^uintptr(0), 0)
	if errno != 0 || got != addr {
		panic(fmt.Sprintf("memory at %#x: got %#x, %v", addr, got, errno))
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&got))
}

// Three walks lead to the same bytes. In the first a kernel reads them over the
// link, in the second a copy reads them when they are not page-locked. In the
// third a kernel runs on a machine whose device uses the host's page table.
func ExampleDriver_Walk() {
	show := func(machine string, lock bool, agent softgpu.Agent) {
		d, ctx := open(machine)
		host := mapAt(0x500000000000, 64<<10)
		defer syscall.Syscall(syscall.SYS_MUNMAP, uintptr(host), 64<<10, 0)
		if lock {
			if err := d.MemHostRegister(ctx, host, 64<<10, 0); err != nil {
				fmt.Println(err)
			}
			defer d.MemHostUnregister(ctx, host)
		}
		w, err := d.Walk(ctx, cu.DevicePtr(uintptr(host))+0x2345, agent, false)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(w)
	}
	show("h200", true, softgpu.Kernel)
	show("h200", false, softgpu.CopyEngine)
	show("gh200", false, softgpu.Kernel)
	// Output:
	// kernel of device 0 reads 0x500000002345, a 65536-byte registered host range at 0x500000000000: zero-copy
	//   GPU MMU  PDE4[0] table                                                    120 ns
	//            PDE3[0] table                                                    120 ns
	//            PDE2[320] table                                                  120 ns
	//            PDE1[0] table                                                    120 ns
	//            PDE0[0] table                                                    120 ns
	//            PTE[2] 4 KiB page of system memory at 0x8000002000               120 ns
	//   link     a read of bus address 0x8000002345, and its data                2638 ns
	//   IOMMU    SL4[1] table                                                      60 ns
	//            SL3[0] table                                                      60 ns
	//            SL2[0] table                                                      60 ns
	//            SL1[2] 4 KiB page of system memory at 0x100002000                 60 ns
	//   memory   0x100002345 of host memory, within the link's time                 0 ns
	//   in all   predicted, nothing cached; the least sure figure is a guess     3598 ns
	// copy engine of device 0 reads 0x500000002345, ordinary memory: copy through the driver's page-locked staging buffer
	//   CPU MMU  PML4[160] table                                                   25 ns
	//            PDPT[0] table                                                     25 ns
	//            PD[0] table                                                       25 ns
	//            PT[2] 4 KiB page of system memory at 0x100000000                  25 ns
	//   driver   a thread copies the 4 KiB page through the staging buffer       2718 ns
	//   GPU MMU  PDE4[0] table                                                    120 ns
	//            PDE3[2] table                                                    120 ns
	//            PDE2[31] table                                                   120 ns
	//            PDE1[511] table                                                  120 ns
	//            PDE0[255] table                                                  120 ns
	//            PTE[0] 4 KiB page of system memory at 0x8000000000               120 ns
	//   link     a read of bus address 0x8000000000, and its data                2638 ns
	//   IOMMU    SL4[1] table                                                      60 ns
	//            SL3[0] table                                                      60 ns
	//            SL2[0] table                                                      60 ns
	//            SL1[0] 4 KiB page of system memory at 0x100001000                 60 ns
	//   memory   0x100001000 of host memory, within the link's time                 0 ns
	//   in all   predicted, nothing cached; the least sure figure is a guess     6416 ns
	// kernel of device 0 reads 0x500000002345, ordinary memory: ordinary memory through the host's page table (ATS)
	//   GPU MMU  PDE4[0] invalid                                                  120 ns
	//   ATS      the device asks the host to translate                            400 ns
	//   CPU MMU  L1[20] table                                                      25 ns
	//            L2[0] table                                                       25 ns
	//            L3[0] 64 KiB page of system memory at 0x100000000                 25 ns
	//   link     the access goes to the host's memory, coherently                 800 ns
	//   memory   0x100002345 of host memory, within the link's time                 0 ns
	//   in all   predicted, nothing cached; the least sure figure is a guess     1395 ns
}
