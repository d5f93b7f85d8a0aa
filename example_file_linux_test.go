package ferry_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// A file that is mapped into memory is copied from there. Where the device cannot register
// memory that may only be read, the copy goes through the staging ring.
func ExampleRegister_mappedFile() {
	gpu, _ := ferry.Open("")
	defer gpu.Close()
	weights, err := mapFile("the weights of a small model")
	if err != nil {
		log.Fatal(err)
	}
	defer syscall.Munmap(weights)
	device, _ := ferry.Alloc[byte](gpu, len(weights))
	defer device.Close()

	var source ferry.Memory[byte] = ferry.Pageable(weights)
	pinned, err := ferry.Register(gpu, weights, &ferry.RegisterOptions{ReadOnly: true})
	switch {
	case err == nil:
		defer pinned.Close()
		source = pinned
	case !errors.Is(err, cu.ErrorNotSupported):
		log.Fatal(err)
	}
	if err := ferry.Copy(gpu.DefaultStream(), device, source); err != nil {
		log.Fatal(err)
	}
	got, err := ferry.Download(device)
	fmt.Printf("%s %v\n", got, err)
	// Output:
	// the weights of a small model <nil>
}

// mapFile maps a file with this text for reading.
func mapFile(text string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "ferry")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // the mapping remains
	path := filepath.Join(dir, "weights")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return syscall.Mmap(int(file.Fd()), 0, len(text), syscall.PROT_READ, syscall.MAP_PRIVATE)
}

// Memory goes to another process as a file, over a Unix socket or to a child (exec.Cmd.ExtraFiles).
// Here both ends are in one process, where the two buffers are the same memory, too.
func ExampleShare() {
	gpu, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	s := gpu.DefaultStream()
	x, err := ferry.AllocVirtual[float32](gpu, 4, &ferry.VirtualOptions{Share: true})
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(ferry.Fill(s, x, 3), x.Wait(context.Background())); err != nil { // before others may look
		log.Fatal(err)
	}
	f, err := ferry.Share(x)
	if err != nil {
		log.Fatal(err)
	}

	y, err := ferry.Import[float32](gpu, f, 4) // the other process
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Close(), x.Close()) // y keeps the memory
	if err := ferry.Fill(s, y.Range(0, 2), 4); err != nil {
		log.Fatal(err)
	}
	got, _ := ferry.Download(y)
	fmt.Println(got, y.Close())
	// Output:
	// <nil> <nil>
	// [4 4 3 3] <nil>
}
