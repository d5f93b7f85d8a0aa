package bench

import "syscall"

// allocPageable allocates pageable memory on pages of the usual size, or on huge pages if
// the system has them, and writes every page.
func allocPageable(n int, huge bool, undo *closers) ([]byte, error) {
	m, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if undo.add(err, func() error { return syscall.Munmap(m) }) != nil {
		return nil, err
	}
	advice := syscall.MADV_NOHUGEPAGE
	if huge {
		advice = syscall.MADV_HUGEPAGE
	}
	_ = syscall.Madvise(m, advice) // a kernel without huge pages refuses both, which is harmless
	wipe(m)
	return m, nil
}
