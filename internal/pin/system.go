package pin

// system is what an engine needs of the operating system. Tests give another.
type system interface {
	// machine is what there is now.
	machine() *Machine
	// take reserves bytes of memory at a multiple of align. Nothing is behind them
	// until they are touched.
	take(bytes, align uintptr) (*reserve, error)
	// advise asks for huge pages or for small ones.
	advise(p address, bytes uintptr, huge bool)
	// prefer puts what is not touched yet on a node, as far as it has room.
	prefer(p address, bytes uintptr, node Node) error
	// there says whether memory is behind the page at p.
	there(p address) bool
	// moveTo lets the calling goroutine run on these processors until undo.
	moveTo(cpus []int) (undo func())
}

// reserve is memory of the system.
type reserve struct {
	start address
	give  func() error // back
}
