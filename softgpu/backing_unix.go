//go:build unix

package softgpu

import "syscall"

// reservesLazily says that reserve takes no memory until it is touched.
const reservesLazily = true

// reserve maps anonymous memory. The system provides pages when they are
// touched.
func reserve(n int) (*backing, error) {
	data, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	return &backing{data: data, unmap: func() { syscall.Munmap(data) }}, nil
}
