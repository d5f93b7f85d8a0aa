package ferry

// Slice is ordinary Go memory as [Memory], made by [Plain].
type Slice[T any] struct{ region }

// Plain lets [Copy] use an ordinary slice, or a file mapped into memory. Large
// copies go through a ring of page-locked memory of Ferry's, filled and emptied by
// several goroutines, at nearly the speed of the link; small ones through the
// driver's. They are not asynchronous: Copy returns when a source has been read or
// a destination written. Pages of a mapped file that was cut off are an error that
// says at which byte, if the copy is large enough for the ring. Register the slice,
// or copy from a buffer of [AllocHost], for copies that return at once.
//
// A slice of a buffer's memory, as Host.Slice gives it, or of memory that is
// registered, is treated as that range of the buffer: it is in flight like one.
//
// T must be a type without Go pointers, or Copy says so. Kernels cannot use plain
// memory.
func Plain[T any](s []T) *Slice[T] {
	r := region{host: addressOf(s), n: len(s)}
	e, err := elementOf[T]()
	if err != nil {
		r.bad = err
	}
	r.bytes = e.size * uintptr(len(s))
	return &Slice[T]{r}
}

// Len is the number of elements.
func (p *Slice[T]) Len() int { return p.where(nil).len() }

// Bytes is the size in bytes.
func (p *Slice[T]) Bytes() int { return p.where(nil).size() }

// Range is elements i to j-1. A range that does not exist is one whose every use
// is an error.
func (p *Slice[T]) Range(i, j int) *Slice[T] { return &Slice[T]{p.where(nil).sub(i, j)} }

// Slice is the memory itself.
func (p *Slice[T]) Slice() []T {
	r := p.where(nil)
	if r == nil || r.bad != nil {
		return nil
	}
	return sliceAt[T](r.host, r.n)
}

func (p *Slice[T]) where(*T) *region {
	if p == nil {
		return nil
	}
	return &p.region
}
