package kernelrace

import (
	"math"
	"testing"
)

type noValues struct{}

func (noValues) Stores(int, bool, uint64, int) (uint64, bool) { return 0, false }
func (noValues) Memory(bool, uint64, int) (uint64, bool)      { return 0, false }
func (noValues) Written(uint64) *Written                      { return nil }

// TestScopes lets a flag order data between two blocks, with each scope of the release, the
// acquire and the accesses to the flag.
func TestScopes(t *testing.T) {
	for n := range 3 * 3 * 3 * 3 {
		scope := func(i int) Scope { return InBlock + Scope(n/[]int{1, 3, 9, 27}[i]%3) }
		fence, write, read, acquire := scope(0), scope(1), scope(2), scope(3)
		d := New(32)
		d.Values = noValues{}
		a, b := d.Block(0, 0), d.Block(1, 0)
		a.Access(0, &Access{Addr: 4096, Bytes: 4, Kind: Write, Inst: 1})
		a.Fence(0, fence)
		a.Access(0, &Access{Addr: 8192, Bytes: 4, Kind: (Write | Strong).With(write), Inst: 2})
		b.Access(0, &Access{Addr: 8192, Bytes: 4, Kind: Strong.With(read), Inst: 3})
		b.Fence(0, acquire)
		b.Access(0, &Access{Addr: 4096, Bytes: 4, Inst: 4})
		want := 0
		if min(fence, write, read, acquire) < Device {
			want++
		}
		if min(write, read) < Device {
			want++ // the accesses to the flag
		}
		if got := len(d.Findings()); got != want {
			t.Errorf("fence %d, write %d, read %d, acquire %d: %d findings, want %d", fence, write, read, acquire, got, want)
		}
	}
}

// allValues says which bytes of all pages have been written.
type allValues struct {
	noValues
	written *Written
}

func (v allValues) Written(uint64) *Written { return v.written }

// TestLastInterval: a thread that has begun very many intervals is still recorded, and what it
// does behind its later fences counts as before them. Waiting for a word takes no intervals.
func TestLastInterval(t *testing.T) {
	d := New(32)
	values := allValues{written: new(Written)}
	values.written[128/64] = math.MaxUint64
	d.Values = values
	b := d.Block(0, 0)
	b.threads[0].now = mostInterval - 1
	acquire := Access{Addr: 128, Bytes: 4, Kind: Strong.With(System), Acquire: true}
	for range 3 {
		b.Access(0, &acquire)
	}
	if now := b.threads[0].now; now != mostInterval-1 {
		t.Errorf("interval %d after acquires, want %d", now, mostInterval-1)
	}
	for range 3 {
		b.Fence(0, Device)
	}
	if now := b.threads[0].now; now != mostInterval {
		t.Errorf("interval %d after fences, want %d", now, mostInterval)
	}
	b.Access(0, &Access{Addr: 64, Bytes: 4, Kind: Write})
	if !values.written.Has(64, 4) || values.written.Has(64, 5) || values.written.Has(63, 2) {
		t.Errorf("written: %x", values.written[:3])
	}
	if f := d.Footprint(func(uint64) bool { return true }); len(f.Pages[0].Writes) != 1 {
		t.Errorf("footprint %+v", f.Pages)
	}
	b.Access(1, &Access{Addr: 64, Bytes: 4})
	if len(d.Findings()) != 1 {
		t.Errorf("findings %v", d.Findings())
	}
}
