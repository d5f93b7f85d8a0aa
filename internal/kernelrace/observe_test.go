package kernelrace

import "testing"

// TestObserve lets one thread write a word by a strong access, and another one find it.
func TestObserve(t *testing.T) {
	d := New(64)
	d.Values = noValues{}
	a, b := d.Block(0, 0), d.Block(1, 0)
	a.Access(0, &Access{Bytes: 4, Kind: (Write | Strong).With(Device), Inst: 1})
	b.Access(0, &Access{Bytes: 4, Kind: Strong.With(Device), Inst: 2})
	b.Access(0, &Access{Bytes: 4, Kind: Write, Inst: 3})
	if n := raceCount(d); n != 0 {
		t.Errorf("%d", n)
	}
}
