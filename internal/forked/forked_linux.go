package forked

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// wipeOnFork is MADV_WIPEONFORK, of Linux 4.14. Package syscall lacks it.
const wipeOnFork = 18

var (
	always, never byte = 0, 1 // for mark: look further, or this process is no child

	// mark points to a byte that is 0 if this process may be a child. Started replaces it once.
	mark   atomic.Pointer[byte]
	parent atomic.Int64 // the process that started a driver; 0 for none
	once   sync.Once
)

func init() { mark.Store(&never) }

// Started records that this process starts a driver. A child calls it after Child.
func Started() { once.Do(start) }

// start makes the page. Without it each call of Child asks for the process id.
func start() {
	parent.Store(int64(os.Getpid()))
	mark.Store(newMark())
}

// newMark returns a byte that is 1 in this process and 0 in its children, or always where the
// system has no such pages. The page is never unmapped.
func newMark() *byte {
	page, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return &always
	}
	if err := syscall.Madvise(page, wipeOnFork); err != nil {
		_ = syscall.Munmap(page)
		return &always
	}
	page[0] = 1
	return &page[0]
}

// Child reports whether this process is a child of the one that started a driver.
func Child() bool { return MayBeChild() && look() }

// MayBeChild is true if Child is, and otherwise false unless the system cannot wipe pages. It
// costs one load and is inlined.
func MayBeChild() bool { return *mark.Load() == 0 }

// look answers for a byte that is 0. A page that the system has wiped is an answer, also where
// parent and child have the same number in two namespaces.
func look() bool { return mark.Load() != &always || int64(os.Getpid()) != parent.Load() }

// New returns the error of a call in a child.
func New(what string) error {
	return &Error{What: what, Parent: int(parent.Load()), Child: os.Getpid()}
}
