package kernelcost

import (
	"math/bits"

	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// Counters of traffic, by the kind of the memory.
const (
	CountDevice  = iota // the device's own memory
	CountHost           // page-locked memory of the host
	CountManaged        // managed memory
	CountPeer           // memory of another device
	NumCounters
)

const (
	sectorSize = 32
	lineSize   = 128
)

func sectorBytes(t *simt.Traffic) uint64 { return sectorSize * (t.ReadSectors + t.WriteSectors) }

// accessBytes returns the bytes that requests move in device memory, which transfers at least
// two sectors at a time. The second-level cache answers loads of one sector.
func accessBytes(t *simt.Traffic, cached bool) uint64 {
	n := sectorBytes(t) + sectorSize*t.Writes[0]
	if !cached {
		n += sectorSize * t.Reads[0]
	}
	return n
}

// filter finds the traffic that passes the first-level caches.
func (k *kernel) filter() {
	s := k.run.Stats
	for i := range k.beyond {
		k.beyond[i] = s.Traffic[i]
		if s.Sample.Blocks > 0 {
			beyondCache(&k.beyond[i], &s.Sample.Loads[i])
		}
	}
}

// beyondCache removes from t the loads that the first-level caches serve. It knows what they
// served of the loads of the sampled blocks, and scales that to all loads. If they served none
// of these loads, it leaves t as it is.
func beyondCache(t *simt.Traffic, s *simt.SampledLoads) {
	asked := sectorsOf(&s.Asked)
	if asked == 0 || !s.Hits() {
		return
	}
	scale := float64(t.CachedSectors) / float64(asked)
	kept := 1 - float64(t.CachedSectors)/float64(t.ReadSectors)
	t.ReadSectors -= t.CachedSectors
	for i, n := range t.Reads {
		t.Reads[i] = rounded(float64(n) * kept)
	}
	for mask, n := range s.Moved {
		moved := float64(n) * scale
		t.ReadSectors += rounded(moved * float64(bits.OnesCount8(uint8(mask))))
		for at := 0; at < 4; {
			run := bits.TrailingZeros8(^uint8(mask >> at))
			if run > 0 {
				t.Reads[run-1] += rounded(moved)
			}
			at += run + 1
		}
	}
}

func rounded(x float64) uint64 { return uint64(x + 0.5) }

// sectorsOf returns the number of sectors of lines that are counted by masks.
func sectorsOf(masks *[16]uint64) (n uint64) {
	for m, count := range masks {
		n += uint64(bits.OnesCount8(uint8(m))) * count
	}
	return n
}
