package kernelrace

import "testing"

type noValues struct{}

func (noValues) Stores(int, bool, uint64, int) (uint64, bool) { return 0, false }
func (noValues) Memory(bool, uint64, int) (uint64, bool)      { return 0, false }

// TestScopes lets a flag order data between two blocks, with each scope of the release, the
// acquire and the accesses to the flag.
func TestScopes(t *testing.T) {
	for fence := InBlock; fence <= System; fence++ {
		for flag := InBlock; flag <= System; flag++ {
			for acquire := InBlock; acquire <= System; acquire++ {
				d := New(32)
				d.Values = noValues{}
				a, b := d.Block(0, 0), d.Block(1, 0)
				a.Access(0, &Access{Addr: 4096, Bytes: 4, Kind: Write, Inst: 1})
				a.Fence(0, fence)
				a.Access(0, &Access{Addr: 8192, Bytes: 4, Kind: (Write | Strong).With(flag), Inst: 2})
				b.Access(0, &Access{Addr: 8192, Bytes: 4, Kind: Strong.With(flag), Inst: 3})
				b.Fence(0, acquire)
				b.Access(0, &Access{Addr: 4096, Bytes: 4, Inst: 4})
				races := 0
				if min(fence, flag, acquire) < Device {
					races++
				}
				if flag < Device {
					races++ // the accesses to the flag
				}
				if n := len(d.Findings()); n != races {
					t.Errorf("fence %d, flag %d, acquire %d: %d findings, want %d", fence, flag, acquire, n, races)
				}
			}
		}
	}
}
