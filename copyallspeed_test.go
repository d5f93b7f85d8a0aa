package ferry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/workers"
)

// manySlices are slices of many sizes, each with a place on the device.
type manySlices struct {
	g      *GPU
	s      *Stream
	device *Device[byte]
	whole  []byte // all of them as one slice
	up     []Pair[byte]
	down   []Pair[byte]
	bytes  int
}

// newManySlices makes slices of these sizes, in random order, at aligned places.
func newManySlices(b *testing.B, sizes []int) *manySlices {
	g, err := Open("")
	if err != nil {
		b.Fatal(err)
	}
	x := &manySlices{g: g}
	room := 0
	for _, n := range sizes {
		x.bytes += n
		room += n + 512
	}
	x.s, err = NewStream(g, nil)
	if err == nil {
		x.device, err = Alloc[byte](g, room)
	}
	if err != nil {
		b.Fatal(err)
	}
	x.whole = make([]byte, x.bytes)
	at := 0
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(sizes)) {
		n := sizes[i]
		host := Memory[byte](Pageable(make([]byte, n)))
		place := Memory[byte](x.device.Range(at, at+n))
		x.up = append(x.up, Pair[byte]{place, host})
		x.down = append(x.down, Pair[byte]{host, place})
		at += (n+255)/256*256 + 256 // not adjacent
	}
	b.Cleanup(func() {
		if err := errors.Join(x.device.Close(), x.s.Close(), g.Close()); err != nil {
			b.Error(err)
		}
	})
	return x
}

// write writes new data with all cores.
func (x *manySlices) write(turn int) {
	fill := func(p []byte, seed uint64) {
		for i := 0; i+8 <= len(p); i += 8 {
			binary.LittleEndian.PutUint64(p[i:], (seed^uint64(i))*0x9e3779b97f4a7c15)
		}
	}
	workers.For(len(x.up), func(first, end int) {
		for i := first; i < end; i++ {
			fill(x.up[i].Src.(*PageableSlice[byte]).Slice(), uint64(turn)<<40^uint64(i)<<24)
		}
	})
	workers.For(len(x.whole), func(first, end int) { fill(x.whole[first:end], uint64(turn)) })
}

// check copies everything in, wipes the slices, copies everything out, and compares.
func (x *manySlices) check(b *testing.B) {
	b.Helper()
	x.write(-1)
	var want [][]byte
	err := CopyAll(x.s, x.up)
	for _, p := range x.up {
		host := p.Src.(*PageableSlice[byte]).Slice()
		want = append(want, slices.Clone(host))
		clear(host)
	}
	if err = errors.Join(err, CopyAll(x.s, x.down)); err != nil {
		b.Fatal(err)
	}
	for i, p := range x.up {
		if !slices.Equal(p.Src.(*PageableSlice[byte]).Slice(), want[i]) {
			b.Fatalf("slice %d of %d bytes differs", i, len(want[i]))
		}
	}
}

// copy copies in one of three ways: all together, one by one, or as one slice.
func (x *manySlices) copy(way string, in bool) (err error) {
	pairs := x.down
	one := Pair[byte]{Pageable(x.whole), x.device.Range(0, x.bytes)}
	if in {
		pairs, one = x.up, Pair[byte]{one.Src, one.Dst}
	}
	switch way {
	case "each":
		for _, p := range pairs {
			err = errors.Join(err, Copy(x.s, p.Dst, p.Src))
		}
	case "one":
		err = Copy(x.s, one.Dst, one.Src)
	default:
		err = CopyAll(x.s, pairs)
	}
	if in {
		err = errors.Join(err, x.s.Wait(context.Background()))
	}
	return err
}

// median returns the median time of the given number of copies, of data that was just written.
func (x *manySlices) median(b *testing.B, way string, in bool, samples int) time.Duration {
	b.Helper()
	var all []time.Duration
	for i := range samples + 2 {
		x.write(i)
		begin := x.g.Now()
		if err := x.copy(way, in); err != nil {
			b.Fatal(err)
		}
		if i >= 2 { // the ring and the workers are warm
			all = append(all, x.g.Now()-begin)
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// weights returns count sizes from 256 bytes to 8 MiB, evenly spread by their logarithm to
// the power of bend, like the tensors of a model.
func weights(count int, bend float64) (sizes []int) {
	for i := range count {
		u := math.Pow(float64(i)/float64(count-1), bend)
		sizes = append(sizes, int(256*math.Pow(32768, u))&^3)
	}
	return sizes
}

// BenchmarkCopyAllPageable compares copies of 462 pageable slices, 512 MiB together, with
// copies one by one and with one slice.
func BenchmarkCopyAllPageable(b *testing.B) {
	x := newManySlices(b, weights(462, 0.662))
	x.check(b)
	saved, caps := x.g.tuning, x.g.caps
	for _, in := range []bool{true, false} {
		for _, way := range []string{"all", "all,no kernel", "all,no batch call", "all,single calls", "each", "one"} {
			b.Run(fmt.Sprintf("in=%v/way=%s", in, way), func(b *testing.B) {
				defer func() { x.g.tuning, x.g.caps = saved, caps }()
				if way == "all,no kernel" || way == "all,single calls" {
					x.g.tuning.Copy.KernelCopies = math.MaxInt
				}
				if way == "all,no batch call" || way == "all,single calls" {
					x.g.caps.BatchCopies = false
				}
				b.ReportAllocs()
				for b.Loop() {
					took := x.median(b, way, in, 9)
					b.ReportMetric(float64(x.bytes)/took.Seconds()/1e9, "GB/s")
				}
				b.ReportMetric(float64(x.bytes)/(1<<20), "MiB")
			})
		}
	}
	x.check(b)
}

// BenchmarkCopyAllDirect measures where the ring copies few small slices faster ("all") than
// the driver ("each").
func BenchmarkCopyAllDirect(b *testing.B) {
	for _, count := range []int{1, 2, 4, 8, 16, 64} {
		for _, size := range []int{256, 4 << 10, 16 << 10, 64 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("count=%d/bytes=%d", count, size), func(b *testing.B) {
				x := newManySlices(b, slices.Repeat([]int{size}, count))
				saved := x.g.tuning
				defer func() { x.g.tuning = saved }()
				for b.Loop() {
					for _, in := range []bool{true, false} {
						for way, limit := range map[string]uintptr{"all": 0, "each": math.MaxInt} {
							x.g.tuning.DirectIn, x.g.tuning.DirectOut = limit, limit
							name := fmt.Sprintf("us-%s-%s", map[bool]string{true: "in", false: "out"}[in], way)
							b.ReportMetric(float64(x.median(b, way, in, 31))/1e3, name)
						}
					}
				}
			})
		}
	}
}
