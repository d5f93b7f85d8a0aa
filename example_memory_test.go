package ferry_test

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// Page-locked memory is copied at the speed of the link, while the program goes
// on.
func Example_pinnedCopy() {
	dev, _ := ferry.Open("") // FERRY_DEVICE, else a GPU, else the software one
	defer dev.Close()
	s, _ := ferry.NewStream(dev, nil)
	defer s.Close()
	const n = 1 << 20
	there, _ := ferry.Alloc[uint32](dev, n)
	defer there.Close()
	out, _ := ferry.AllocHost[uint32](dev, n, &ferry.HostOptions{WriteCombined: true}) // Go only writes it
	defer out.Close()
	in, _ := ferry.AllocHost[uint32](dev, n, nil)
	defer in.Close()

	for i, values := 0, out.Slice(); i < n; i++ {
		values[i] = uint32(i)
	}
	fmt.Println(ferry.Copy(s, there, out), ferry.Copy(s, in, there))
	sum := uint64(0)
	for _, v := range in.Slice() { // waits
		sum += uint64(v)
	}
	fmt.Println(sum == n*(n-1)/2)
	// Output:
	// <nil> <nil>
	// true
}

// The classic zero-copy program: is mapping possible; allocate mapped; ask for the
// address in kernels. The context is made so that it can map.
func Example_zeroCopy() {
	dev, _ := ferry.Open("")
	defer dev.Close()
	if can, _ := dev.Attribute(cu.DeviceAttributeCanMapHostMemory); can == 0 {
		fmt.Println("this device needs copies")
		return
	}
	s, _ := ferry.NewStream(dev, nil)
	defer s.Close()
	code, _ := ferry.Load(dev, []byte(kernels.PTX))
	defer code.Close()
	add, _ := code.Kernel("vector_add")

	const n = 1000
	mapped := &ferry.HostOptions{Mapped: true}
	a, _ := ferry.AllocHost[float32](dev, n, mapped)
	defer a.Close()
	b, _ := ferry.AllocHost[float32](dev, n, mapped)
	defer b.Close()
	c, _ := ferry.AllocHost[float32](dev, n, mapped)
	defer c.Close()
	for i := range n {
		a.Slice()[i], b.Slice()[i] = float32(i), 2*float32(i)
	}
	// The buffers would do as they are; here are their addresses, which Launch
	// cannot follow: so wait for the stream.
	pa, pb, pc := a.Pointer(), b.Pointer(), c.Pointer()
	fmt.Println(pa != 0, s.Launch(add, ferry.Grid(n, 256), pa, pb, pc, uint64(n)), s.Wait(context.Background()))
	fmt.Println(c.Slice()[n-1])
	// Output:
	// true <nil> <nil>
	// 2997
}

// How memory is page-locked can be asked. Portability is Ferry's default, and no
// flag that hardware tells.
func ExampleHost_Flags() {
	dev, _ := ferry.Open("")
	defer dev.Close()
	for _, o := range []ferry.HostOptions{{Mapped: true}, {Mapped: true, WriteCombined: true}} {
		h, err := ferry.AllocHost[byte](dev, 4096, &o)
		if err != nil {
			fmt.Println(err)
			return
		}
		flags, err := h.Flags()
		fmt.Println("mapped", flags&cu.MemHostAllocDeviceMap != 0, "write-combined", flags&cu.MemHostAllocWriteCombined != 0, err)
		h.Close()
	}
	// Output:
	// mapped true write-combined false <nil>
	// mapped true write-combined true <nil>
}

// Registrations may overlap; each is good until its own Close.
func ExampleRegister_overlapping() {
	dev, _ := ferry.Open("")
	defer dev.Close()
	s, _ := ferry.NewStream(dev, nil)
	defer s.Close()
	there, _ := ferry.Alloc[byte](dev, 26)
	defer there.Close()

	letters := []byte("abcdefghijklmnopqrstuvwxyz")
	part, _ := ferry.Register(dev, letters[5:15], nil)
	whole, err := ferry.Register(dev, letters, nil) // locks what is not locked yet
	fmt.Println(err, ferry.Copy(s, there, whole))
	fmt.Println(whole.Close(), ferry.Copy(s, part, there.Range(0, 10)))
	fmt.Printf("%s\n", part.Slice())
	fmt.Printf("%v %s\n", part.Close(), letters)
	// Output:
	// <nil> <nil>
	// <nil> <nil>
	// abcdefghij
	// <nil> abcdeabcdefghijpqrstuvwxyz
}

// Under unified addressing every address tells where it is, and kernels take host
// addresses as they are.
func Example_unifiedAddressing() {
	dev, _ := ferry.Open("")
	defer dev.Close()
	if unified, _ := dev.Attribute(cu.DeviceAttributeUnifiedAddressing); unified == 0 {
		fmt.Println("host and device have addresses apart")
		return
	}
	s, _ := ferry.NewStream(dev, nil)
	defer s.Close()
	code, _ := ferry.Load(dev, []byte(kernels.PTX))
	defer code.Close()
	increment, _ := code.Kernel("increment")
	here, _ := ferry.AllocHost[float32](dev, 100, nil)
	defer here.Close()
	there, _ := ferry.Alloc[float32](dev, 100)
	defer there.Close()

	for _, p := range []cu.DevicePtr{here.Range(10, 100).Pointer(), there.Range(10, 100).Pointer()} {
		about, err := dev.Driver().PointerGetAttributes(dev.Context(), p)
		fmt.Println("host", about.MemoryType == cu.MemoryTypeHost, "bytes", about.RangeSize, "offset", p-about.RangeStart, err)
	}
	fmt.Println(&here.Slice()[0] == (*float32)(fromDevice(here.Pointer())))
	copy(here.Slice(), []float32{1, 2, 3})
	fmt.Println(s.Launch(increment, ferry.Grid(3, 32), here, uint64(3)))
	fmt.Println(ferry.Copy(s, there, here), ferry.Copy(s, here.Range(50, 100), there.Range(0, 50))) // the types tell the direction
	fmt.Println(here.Slice()[50:53])
	// Output:
	// host true bytes 400 offset 40 <nil>
	// host false bytes 400 offset 40 <nil>
	// true
	// <nil>
	// <nil> <nil>
	// [2 3 4]
}

// Managed memory is used by the host and by kernels under one address, here
// beside ordinary memory in one launch.
func Example_managed() {
	dev, _ := ferry.Open("")
	defer dev.Close()
	s, _ := ferry.NewStream(dev, nil)
	defer s.Close()
	code, _ := ferry.Load(dev, []byte(kernels.PTX))
	defer code.Close()
	add, _ := code.Kernel("vector_add")
	const n = 1000
	v, err := ferry.AllocManaged[float32](dev, n, nil)
	if errors.Is(err, cu.ErrorNotSupported) {
		fmt.Println("this device has no managed memory")
		return
	}
	defer v.Close()
	ordinary, _ := ferry.Alloc[float32](dev, n)
	defer ordinary.Close()

	for i, values := 0, v.Slice(); i < n; i++ {
		values[i] = float32(i)
	}
	err = errors.Join(
		v.Advise(cu.MemAdviseSetPreferredLocation, dev.Device()),
		v.Prefetch(s, dev.Device()), // or let its pages move when they are touched
		ferry.Fill(s, ordinary, 0.5),
		s.Launch(add, ferry.Grid(n, 256), v, ordinary, v, uint64(n)),
	)
	advice, _ := v.Advice()
	fmt.Println(err, advice.PreferredLocation)
	fmt.Println(v.Slice()[n-1]) // waits, and the page comes back
	// Output:
	// <nil> 0
	// 999.5
}

// Variables of a module are buffers, too.
func ExampleGlobal() {
	dev, _ := ferry.Open("")
	defer dev.Close()
	code, err := ferry.Load(dev, []byte(`.version 6.3
.target sm_52
.address_size 64
.visible .global .align 4 .f32 weights[3] = {0f3F800000, 0f40000000, 0f40400000};
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer code.Close()
	s := ferry.DefaultStream(dev)

	weights, err := ferry.Global[float32](code, "weights")
	fmt.Println(weights.Len(), err)
	got := make([]float32, 3)
	fmt.Println(ferry.Fill(s, weights.Range(1, 2), 0.25), ferry.Copy(s, ferry.Pageable(got), weights), got)
	_, err = ferry.Global[float64](code, "weights")
	fmt.Println(err)
	// Output:
	// 3 <nil>
	// <nil> <nil> [1 0.25 3]
	// find variable "weights": it has 12 bytes, which is no number of elements of float64, 8 bytes each
}

// Page-locked memory is filled by the GPU through its address in kernels, with any
// pattern of 8, 16 or 32 bits: a float's among them.
func Example_fillPageLocked() {
	dev, _ := ferry.Open("")
	defer dev.Close()
	s, _ := ferry.NewStream(dev, nil)
	defer s.Close()
	h, err := ferry.AllocHost[float32](dev, 6, &ferry.HostOptions{Mapped: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	clear(h.Slice())

	fmt.Println(ferry.Fill(s, h.Range(1, 5), -math.E))
	fmt.Println(h.Slice())
	// Output:
	// <nil>
	// [0 -2.7182817 -2.7182817 -2.7182817 -2.7182817 0]
}

// A rectangle of a picture goes to rows that the GPU reads fastest, and back to
// another place.
func ExampleCopyRect() {
	dev, _ := ferry.Open("")
	defer dev.Close()
	s, _ := ferry.NewStream(dev, nil)
	defer s.Close()
	there, pitch, _ := ferry.AllocPitched[byte](dev, 3, 2)
	defer there.Close()

	const width = 8
	picture := []byte("........" + ".abc...." + ".def...." + "........")
	from := func(x, y int) ferry.Rect[byte] { // 3 by 2, at a place of the picture
		return ferry.Rect[byte]{Memory: ferry.Pageable(picture[y*width+x:]), Width: 3, Height: 2, Pitch: width}
	}
	tile := ferry.Rect[byte]{Memory: there, Width: 3, Height: 2, Pitch: pitch}
	fmt.Println(ferry.CopyRect(s, tile, from(1, 1)), ferry.CopyRect(s, from(5, 2), tile))
	for y := range 4 {
		fmt.Printf("%s\n", picture[y*width:(y+1)*width])
	}
	// Output:
	// <nil> <nil>
	// ........
	// .abc....
	// .def.abc
	// .....def
}

// One page-locked buffer serves two devices, which copy to each other. With one
// device, both are that.
func Example_twoDevices() {
	all, err := ferry.OpenAll("")
	if err == nil && len(all) == 1 {
		second, openErr := ferry.OpenDriver(all[0].Driver(), 0)
		all, err = append(all, second), openErr
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	one, two := all[0], all[1]
	for _, dev := range all {
		defer dev.Close()
	}
	host, _ := ferry.AllocHost[uint16](one, 1000, nil) // portable
	defer host.Close()
	here, _ := ferry.Alloc[uint16](one, 1000)
	defer here.Close()
	there, _ := ferry.Alloc[uint16](two, 1000)
	defer there.Close()
	s, _ := ferry.NewStream(one, nil)
	defer s.Close()
	t, _ := ferry.NewStream(two, nil)
	defer t.Close()

	for i, values := 0, host.Slice(); i < 1000; i++ {
		values[i] = uint16(3 * i)
	}
	fmt.Println(ferry.Copy(s, here, host), s.Wait(context.Background()))
	fmt.Println(ferry.Copy(t, there, here)) // between devices, in a stream of the other
	clear(host.ReadSlice())
	fmt.Println(ferry.Copy(t, host, there))
	fmt.Println(host.Slice()[999])
	can, _ := one.CanAccessPeer(two)
	fmt.Println(!can || one.EnablePeer(two) == nil) // then kernels of one can use there, too
	// Output:
	// <nil> <nil>
	// <nil>
	// <nil>
	// 2997
	// true
}
