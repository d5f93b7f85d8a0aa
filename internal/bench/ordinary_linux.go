package bench

import "syscall"

// ordinary is memory on pages of the usual size, or on huge ones where the system has
// some, each of which has been written.
func ordinary(n int, huge bool, undo *closers) ([]byte, error) {
	m, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if undo.later(err, func() error { return syscall.Munmap(m) }) != nil {
		return nil, err
	}
	advice := syscall.MADV_NOHUGEPAGE
	if huge {
		advice = syscall.MADV_HUGEPAGE
	}
	_ = syscall.Madvise(m, advice) // a kernel without huge pages refuses both, and has none
	wipe(m)
	return m, nil
}
