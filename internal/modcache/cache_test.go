package modcache

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// counting returns a function that makes values, and the number of its calls.
func counting() (func(string) (string, error), *atomic.Int32) {
	var calls atomic.Int32
	return func(key string) (string, error) {
		calls.Add(1)
		return "value of " + key, nil
	}, &calls
}

func TestGetMakesOnce(t *testing.T) {
	c := New[string](100)
	make, calls := counting()
	key := []byte("a")
	for range 3 {
		if got, err := c.Get(key, make); got != "value of a" || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	key[0] = 'b' // the cache has its own copy
	if got, _ := c.Get(key, make); got != "value of b" || calls.Load() != 2 {
		t.Errorf("got %q after %d calls, want the value of b after 2", got, calls.Load())
	}
}

func TestBound(t *testing.T) {
	c := New[string](10)
	make, calls := counting()
	get := func(keys ...string) {
		for _, k := range keys {
			if _, err := c.Get([]byte(k), make); err != nil {
				t.Fatal(err)
			}
		}
	}
	get("aaaa", "bbbb", "aaaa", "cccc") // drops b, which was used before a
	if c.bytes != 8 || len(c.entries) != 2 || c.order.Len() != 2 {
		t.Errorf("%d bytes in %d entries, want 8 in 2", c.bytes, len(c.entries))
	}
	calls.Store(0)
	get("aaaa", "cccc")
	if calls.Load() != 0 {
		t.Error("a or c is lost")
	}
	get("bbbb")
	if calls.Load() != 1 {
		t.Error("b is still there")
	}
	get("eleven bytes", "eleven bytes")
	if calls.Load() != 3 || c.bytes > 10 {
		t.Errorf("a key above the limit is kept: %d bytes", c.bytes)
	}
}

func TestErrorsAreKept(t *testing.T) {
	c := New[string](100)
	fail := errors.New("failed")
	calls := 0
	for range 2 {
		_, err := c.Get([]byte("a"), func(string) (string, error) { calls++; return "", fail })
		if err != fail {
			t.Errorf("error %v", err)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
}

// TestLargeErrors: of keys above the limit the last errors are kept.
func TestLargeErrors(t *testing.T) {
	c := New[string](2)
	calls := 0
	get := func(key string) {
		if _, err := c.Get([]byte(key), func(key string) (string, error) { calls++; return "", errors.New(key) }); err == nil || err.Error() != key {
			t.Errorf("%s: %v", key, err)
		}
	}
	for _, key := range []string{"abcd", "efgh", "abcd", "efgh"} {
		get(key)
	}
	if calls != 2 || c.bytes != 0 {
		t.Errorf("%d calls, %d bytes, want 2 and 0", calls, c.bytes)
	}
	for i := range 10 {
		get(fmt.Sprint("key", i))
	}
	if get("abcd"); calls != 13 {
		t.Errorf("%d calls, want 13: too many errors are kept", calls)
	}
}

// TestPanic: what panics once does not return an empty value later.
func TestPanic(t *testing.T) {
	c := New[string](100)
	for range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			v, err := c.Get([]byte("a"), func(string) (string, error) { panic("BUG") })
			t.Errorf("%q, %v", v, err)
		}()
	}
}

// TestConcurrent: goroutines with few keys and a cache too small for them get right values.
func TestConcurrent(t *testing.T) {
	c := New[string](12)
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 200 {
				key := fmt.Sprintf("key%d", (g+i)%5)
				got, err := c.Get([]byte(key), func(key string) (string, error) {
					if key == "key3" {
						return "", errors.New(key)
					}
					return key, nil
				})
				if err == nil && got != key || err != nil && err.Error() != key {
					t.Errorf("%s: %q, %v", key, got, err)
				}
			}
		})
	}
	group.Wait()
	if c.bytes > 12 || c.bytes != 4*len(c.entries) {
		t.Errorf("%d bytes in %d entries", c.bytes, len(c.entries))
	}
}

func TestParse(t *testing.T) {
	text := []byte(".version 7.0\n.target sm_80\n.address_size 64\n")
	a, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := Parse(append([]byte(nil), text...)); a != b {
		t.Error("the same text was parsed twice")
	}
	if _, err := Parse([]byte("no PTX")); err == nil {
		t.Error("no error")
	}
}
