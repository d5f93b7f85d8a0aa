package bench

import "syscall"

// ordinary is memory on pages of the usual size, each of which has been written.
func ordinary(n int, undo *closers) ([]byte, error) {
	m, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if undo.later(err, func() error { return syscall.Munmap(m) }) != nil {
		return nil, err
	}
	_ = syscall.Madvise(m, syscall.MADV_NOHUGEPAGE) // a kernel without huge pages refuses what it does anyway
	wipe(m)
	return m, nil
}
