package modcache

import (
	"container/list"
	"crypto/sha256"
	"sync"

	"github.com/ferrygpu/ferry/ptx"
)

// Cache keeps values by the bytes that they were made from. It is safe for concurrent use.
type Cache[V any] struct {
	limit int // most bytes of all keys

	mu      sync.Mutex
	entries map[string]*list.Element
	order   list.List // of *entry[V]; those used last come first
	bytes   int       // of all keys

	failures [4]failure // of the last keys above the limit that failed
	failed   int        // how many there were
}

type entry[V any] struct {
	key string
	get func() (V, error)
}

// failure is the error for a key above the limit.
type failure struct {
	sum [sha256.Size]byte // of the key
	err error
}

// New returns a cache whose keys have at most limit bytes together.
func New[V any](limit int) *Cache[V] {
	return &Cache[V]{limit: limit, entries: map[string]*list.Element{}}
}

// Get returns the value for key. If there is none, it makes one. Of several goroutines with
// one key, one makes the value and the others wait. Errors are kept like values, so make
// must depend on nothing but the key. Of a key above the limit only the error is kept. The
// cache copies key.
func (c *Cache[V]) Get(key []byte, make func(key string) (V, error)) (V, error) {
	if len(key) > c.limit {
		return c.getLarge(key, make)
	}
	return c.entry(key, make).get()
}

// getLarge is Get for a key above the limit.
func (c *Cache[V]) getLarge(key []byte, make func(key string) (V, error)) (v V, err error) {
	sum := sha256.Sum256(key)
	if err := c.failure(sum); err != nil {
		return v, err
	}
	if v, err = make(string(key)); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.failures[c.failed%len(c.failures)] = failure{sum, err}
		c.failed++
	}
	return v, err
}

// failure returns the error that is kept for a key above the limit.
func (c *Cache[V]) failure(sum [sha256.Size]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.failures {
		if f := &c.failures[i]; f.sum == sum {
			return f.err
		}
	}
	return nil
}

// entry returns the entry for key, and adds it if there is none. A panic of make repeats
// for all that ask for the key.
func (c *Cache[V]) entry(key []byte, make func(key string) (V, error)) *entry[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[string(key)]; at != nil {
		c.order.MoveToFront(at)
		return at.Value.(*entry[V])
	}
	e := &entry[V]{key: string(key)}
	e.get = sync.OnceValues(func() (V, error) { return make(e.key) })
	c.entries[e.key] = c.order.PushFront(e)
	c.bytes += len(e.key)
	for c.bytes > c.limit {
		c.remove(c.order.Back())
	}
	return e
}

// remove removes an entry. The caller holds mu.
func (c *Cache[V]) remove(at *list.Element) {
	e := c.order.Remove(at).(*entry[V])
	delete(c.entries, e.key)
	c.bytes -= len(e.key)
}

// maxText is how many bytes of PTX the cache of parsed modules holds. A parsed module takes
// about 8 times the memory of its text.
const maxText = 8 << 20

var parsed = New[*ptx.Module](maxText)

// Parse returns the parsed module of a PTX text. Module and errors have no name of a file,
// and must not be changed.
func Parse(text []byte) (*ptx.Module, error) {
	return parsed.Get(text, func(text string) (*ptx.Module, error) { return ptx.Parse("", text) })
}
