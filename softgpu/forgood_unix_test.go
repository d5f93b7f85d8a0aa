//go:build unix

package softgpu

import "syscall"

// reserveForGood is reserve for drivers whose host memory is used after it is freed. The addresses
// of freed memory stay reserved, without access. Otherwise they may be Go's own memory by then, such as
// the marks of the garbage collector, which such a use would overwrite.
func reserveForGood(n int) (*backing, error) {
	b, err := reserve(n)
	if err == nil {
		data := b.data
		b.unmap = func() {
			if err := syscall.Mprotect(data, syscall.PROT_NONE); err != nil {
				panic(err)
			}
		}
	}
	return b, err
}
