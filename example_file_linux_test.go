package ferry_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// A file mapped into memory is copied straight from there. Where the device cannot
// page-lock what may only be read, the driver stages the copy.
func ExampleRegister_mappedFile() {
	dev, _ := ferry.Open("")
	defer dev.Close()
	dir, err := os.MkdirTemp("", "ferry")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "weights")
	if err := os.WriteFile(path, []byte("the weights of a small model"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	file, err := os.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	weights, err := syscall.Mmap(int(file.Fd()), 0, 28, syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer syscall.Munmap(weights)

	there, _ := ferry.Alloc[byte](dev, len(weights))
	defer there.Close()
	var from ferry.Memory[byte]
	locked, err := ferry.Register(dev, weights, &ferry.RegisterOptions{ReadOnly: true})
	switch {
	case err == nil:
		defer locked.Close()
		from = locked
	case errors.Is(err, cu.ErrorNotSupported):
		from = ferry.Pageable(weights)
	default:
		fmt.Println(err)
		return
	}
	s := ferry.DefaultStream(dev)
	got := make([]byte, len(weights))
	fmt.Println(ferry.Copy(s, there, from), ferry.Copy(s, ferry.Pageable(got), there))
	fmt.Printf("%s\n", got)
	// Output:
	// <nil> <nil>
	// the weights of a small model
}
