package dlpack_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/dlpack"
)

// A buffer goes out as a tensor. The library calls its deleter when it is done, which here Delete
// does. The buffer may be closed before.
func ExampleExport() {
	gpu := ok(ferry.Open("soft:h200"))
	defer gpu.Close()
	x := ok(ferry.AllocHost[float32](gpu, 12, nil))
	tensor := ok(dlpack.Export(x, []int{3, 4}, nil))
	fmt.Println(tensor) // give uintptr(tensor) to the library
	fmt.Println(x.Close())
	tensor.Delete()
	// Output:
	// float32 (3, 4) on the CPU, page-locked for CUDA
	// <nil>
}

// A tensor of a library comes in as memory. The library is made up: the tensor is 0.
func ExampleImport() {
	gpu := ok(ferry.Open("soft:h200"))
	defer gpu.Close()
	library := func() uintptr { return 0 }
	tensor := dlpack.Tensor(library())
	x, err := dlpack.Import[float32](gpu, tensor)
	if err != nil {
		fmt.Println(err)
		tensor.Delete() // it is still ours
		return
	}
	fmt.Println(x.Shape(), x.Memory().Len())
	fmt.Println(x.Close()) // gives it back
	// Output:
	// import a tensor: no tensor given (NULL) (CUDA_ERROR_INVALID_VALUE)
}

// A buffer goes to another process, which here is this one, and is the same memory there.
func ExampleSend() {
	gpu := ok(ferry.Open("soft:h200"))
	defer gpu.Close()
	here, there := sockets()
	x := ok(ferry.AllocVirtual[int32](gpu, 6, &ferry.VirtualOptions{Share: true}))
	if err := dlpack.Send(here, x, []int{2, 3}, nil); err != nil {
		fmt.Println(err)
		return
	}
	y := ok(dlpack.Receive[int32](gpu, there)) // in Python: ferry_dlpack.receive(sock)
	fmt.Println(y.Shape(), ferry.Fill(gpu.DefaultStream(), x, 7))
	fmt.Println(gpu.Wait(context.Background())) // nobody else orders the work on x and y
	fmt.Println(ok(ferry.Download(y.Memory().(*ferry.Device[int32]))))
	fmt.Println(x.Close(), y.Close(), here.Close(), there.Close())
	// Output:
	// [2 3] <nil>
	// <nil>
	// [7 7 7 7 7 7]
	// <nil> <nil> <nil> <nil>
}

func ok[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// sockets returns the two ends of a Unix socket.
func sockets() (a, b *net.UnixConn) {
	fds := ok(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0))
	ends := make([]*net.UnixConn, 2)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		ends[i] = ok(net.FileConn(f)).(*net.UnixConn)
		f.Close()
	}
	return ends[0], ends[1]
}
