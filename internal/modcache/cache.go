package modcache

import (
	"container/list"
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
}

type entry[V any] struct {
	key   string
	once  sync.Once
	value V
	err   error
}

// New returns a cache whose keys have at most limit bytes together.
func New[V any](limit int) *Cache[V] {
	return &Cache[V]{limit: limit, entries: map[string]*list.Element{}}
}

// Get returns the value for key. If there is none, it makes one. Of several goroutines with
// one key, one makes the value and the others wait. Errors are kept like values, so make
// must depend on nothing but the key. What belongs to a key above the limit is not kept. The
// cache copies key.
func (c *Cache[V]) Get(key []byte, make func(key string) (V, error)) (V, error) {
	if len(key) > c.limit {
		return make(string(key))
	}
	e := c.entry(key)
	e.once.Do(func() { e.value, e.err = make(e.key) })
	return e.value, e.err
}

// entry returns the entry for key, and adds it if there is none.
func (c *Cache[V]) entry(key []byte) *entry[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[string(key)]; at != nil {
		c.order.MoveToFront(at)
		return at.Value.(*entry[V])
	}
	e := &entry[V]{key: string(key)}
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
