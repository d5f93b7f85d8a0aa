package kernelrace

import "testing"

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

// TestWritesAreKept: writes of a thread that is not checked any more are still recorded.
func TestWritesAreKept(t *testing.T) {
	d := New(32)
	values := allValues{written: new(Written)}
	d.Values = values
	b := d.Block(0, 0)
	b.threads[0].now = mostInterval
	b.Access(0, &Access{Addr: 64, Bytes: 4, Kind: Write})
	if !values.written.Has(64, 4) || values.written.Has(64, 5) || values.written.Has(63, 2) {
		t.Errorf("written: %x", values.written[:3])
	}
	if len(d.Findings()) != 0 || !d.saturated {
		t.Errorf("findings %v, saturated %v", d.Findings(), d.saturated)
	}
}
