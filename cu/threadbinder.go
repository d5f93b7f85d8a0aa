package cu

// ThreadBinder is a driver whose library keeps a current context in each thread, as CUDA does.
// Find it with [As]. Methods of [Driver] get their context as an argument, so they need no
// current one. Other code that calls the library does.
type ThreadBinder interface {
	// BindThread makes ctx current in the calling thread, until unbind is called in the same
	// thread. The goroutine must be locked to the thread (runtime.LockOSThread). Calls of the
	// driver in between, also those with other contexts, leave the current context as they
	// found it. unbind makes the context current that was so before, and leaves those below it
	// on the thread's stack. If the context from before has been destroyed since, unbind does
	// not use it, and the library decides what is current. Pairs of BindThread and unbind may be
	// nested.
	BindThread(ctx Context) (unbind func() error, err error)
	// WithContext calls f with ctx current in the calling thread, and may leave it current, as other
	// calls may. Within BindThread it leaves what was current. f calls another library and not
	// the driver, on the same thread: the goroutine must be locked to it. WithContext costs less
	// than BindThread, and allocates nothing. It returns the error of f.
	WithContext(ctx Context, f func() error) error
}
