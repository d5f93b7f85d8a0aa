package kernelrace

import "testing"

// TestPolledWords lets a thread read words again and again while other blocks release them. Its
// fence orders what all of them have written before, and nothing else.
func TestPolledWords(t *testing.T) {
	const words, data = 0, 1 << 16
	d := New(1)
	d.Values = noValues{}
	reader := d.Block(0, 0)
	poll := func(word uint64) {
		for range 3 {
			reader.Access(0, &Access{Addr: words + 4*word, Bytes: 4, Kind: Strong.With(Device), Inst: 1})
		}
	}
	update := (Write | Strong | Atomic).With(Device)
	for i := range uint64(8) {
		b := d.Block(i+1, 0)
		b.Access(0, &Access{Addr: data + 4*i, Bytes: 4, Kind: Write, Inst: 2})
		if i < 7 { // the last one releases nothing
			b.Fence(0, Device)
			b.Access(0, &Access{Addr: words + i/4*4, Bytes: 4, Kind: update, Inst: 3, Update: true})
		}
		poll(i / 4)
	}
	reader.Fence(0, Device)
	for i := range uint64(8) {
		reader.Access(0, &Access{Addr: data + 4*i, Bytes: 4, Inst: 4})
		if n := raceCount(d); n != int(i/7) {
			t.Fatalf("%d races with blocks up to %d", n, i+1)
		}
	}
}

// TestPolledWordWritten lets a thread read a word that is then written without an update. What
// the thread has read before it still acquires.
func TestPolledWordWritten(t *testing.T) {
	d := New(1)
	d.Values = noValues{}
	reader := d.Block(0, 0)
	for i := range uint64(2) {
		b := d.Block(i+1, 0)
		b.Access(0, &Access{Addr: 256 + 4*i, Bytes: 4, Kind: Write, Inst: 2})
		b.Fence(0, Device)
		b.Access(0, &Access{Bytes: 4, Kind: (Write | Strong).With(Device), Inst: 3})
		reader.Access(0, &Access{Bytes: 4, Kind: Strong.With(Device), Inst: 1})
	}
	reader.Fence(0, Device)
	for i := range uint64(2) {
		reader.Access(0, &Access{Addr: 256 + 4*i, Bytes: 4, Inst: 4})
	}
	if n := raceCount(d); n != 0 {
		t.Errorf("%d races", n)
	}
}
