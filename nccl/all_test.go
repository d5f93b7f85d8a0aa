package nccl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/nccl"
)

// pairs are two ranks of this process: on a software machine, and on the two GPUs of a machine that
// has them.
func pairs(t *testing.T, f func(t *testing.T, w *world)) {
	t.Run("soft", func(t *testing.T) { f(t, newWorld(t, 2, nil)) })
	t.Run("hardware", func(t *testing.T) {
		comms, streams := hardware(t)
		if len(comms) < 2 {
			t.Skip("needs two GPUs")
		}
		f(t, &world{T: t, comms: comms, streams: streams})
	})
}

// elements makes elements of type T from small whole numbers, which every type has.
type elements[T nccl.Number] func(x int) T

// packed makes a float with the given numbers of bits for its exponent and its mantissa.
func packed(x, exponent, mantissa int) uint32 {
	if x == 0 {
		return 0
	}
	bits := math.Float32bits(float32(x))
	bias := 1<<(exponent-1) - 1
	return uint32(int(bits>>23)-127+bias)<<mantissa | bits>>(23-mantissa)&(1<<mantissa-1)
}

// TestAllTypes: each collective with each type and operation, in place and out of place, with one
// element, some that fill no vector, and many.
func TestAllTypes(t *testing.T) {
	pairs(t, func(t *testing.T, w *world) {
		typed(w, "int8", func(x int) int8 { return int8(x) })
		typed(w, "uint8", func(x int) uint8 { return uint8(x) })
		typed(w, "int32", func(x int) int32 { return int32(x) })
		typed(w, "uint32", func(x int) uint32 { return uint32(x) })
		typed(w, "int64", func(x int) int64 { return int64(x) })
		typed(w, "uint64", func(x int) uint64 { return uint64(x) })
		typed(w, "float32", func(x int) float32 { return float32(x) })
		typed(w, "float64", func(x int) float64 { return float64(x) })
		typed(w, "float16", func(x int) nccl.Float16 { return nccl.Float16(packed(x, 5, 10)) })
		typed(w, "bfloat16", func(x int) nccl.BFloat16 { return nccl.BFloat16(packed(x, 8, 7)) })
		typed(w, "float8e4m3", func(x int) nccl.Float8E4M3 { return nccl.Float8E4M3(packed(x, 4, 3)) })
		typed(w, "float8e5m2", func(x int) nccl.Float8E5M2 { return nccl.Float8E5M2(packed(x, 5, 2)) })
	})
}

// value is element i of a rank: 1 to 4, so that every result is exact in every type.
func value(rank, i int) int { return 1 + i%2 + 2*rank }

// reduced is what an operation makes of the values of two ranks.
func reduced(op nccl.Op, i int) int {
	a, b := value(0, i), value(1, i)
	switch op {
	case nccl.Prod:
		return a * b
	case nccl.Max:
		return max(a, b)
	case nccl.Min:
		return min(a, b)
	case nccl.Avg:
		return (a + b) / 2
	}
	return a + b
}

func typed[T nccl.Number](w *world, name string, of elements[T]) {
	w.Run(name, func(t *testing.T) {
		w := &world{T: t, comms: w.comms, streams: w.streams}
		for _, n := range []int{1, 33, 5000} {
			x := &typedTest[T]{world: w, of: of, n: n}
			for op := nccl.Sum; op <= nccl.Avg; op++ {
				x.run(fmt.Sprint("all-reduce, ", op), n, n, func(int) int { return 0 }, func(c nccl.Caller, s *ferry.Stream, dst, src *ferry.Device[T]) error {
					return nccl.AllReduce(c, s, dst, src, op)
				}, func(_, i int) int { return reduced(op, i) })
				x.run(fmt.Sprint("reduce, ", op), n, n, func(int) int { return 0 }, func(c nccl.Caller, s *ferry.Stream, dst, src *ferry.Device[T]) error {
					return nccl.Reduce(c, s, dst, src, op, 1)
				}, func(rank, i int) int {
					if rank != 1 {
						return -1
					}
					return reduced(op, i)
				})
				x.run(fmt.Sprint("reduce-scatter, ", op), 2*n, n, func(rank int) int { return -rank * n }, func(c nccl.Caller, s *ferry.Stream, dst, src *ferry.Device[T]) error {
					return nccl.ReduceScatter(c, s, dst, src, op)
				}, func(rank, i int) int { return reduced(op, rank*n+i) })
			}
			x.run("broadcast", n, n, func(int) int { return 0 }, func(c nccl.Caller, s *ferry.Stream, dst, src *ferry.Device[T]) error {
				return nccl.Broadcast(c, s, dst, src, 1)
			}, func(_, i int) int { return value(1, i) })
			x.run("all-gather", n, 2*n, func(rank int) int { return rank * n }, func(c nccl.Caller, s *ferry.Stream, dst, src *ferry.Device[T]) error {
				return nccl.AllGather(c, s, dst, src)
			}, func(_, i int) int { return value(i/n, i%n) })
			x.run("gather", n, 2*n, func(rank int) int { return rank * n }, func(c nccl.Caller, s *ferry.Stream, dst, src *ferry.Device[T]) error {
				return nccl.Gather(c, s, dst, src, 0)
			}, func(rank, i int) int {
				if rank != 0 {
					return -1
				}
				return value(i/n, i%n)
			})
			x.run("scatter", 2*n, n, func(rank int) int { return -rank * n }, func(c nccl.Caller, s *ferry.Stream, dst, src *ferry.Device[T]) error {
				return nccl.Scatter(c, s, dst, src, 1)
			}, func(rank, i int) int { return value(1, rank*n+i) })
			x.run("all-to-all", 2*n, 2*n, nil, func(c nccl.Caller, s *ferry.Stream, dst, src *ferry.Device[T]) error {
				return nccl.AllToAll(c, s, dst, src)
			}, func(rank, i int) int { return value(i/n, rank*n+i%n) })
		}
	})
}

// typedTest runs calls with n elements of a type on two ranks.
type typedTest[T nccl.Number] struct {
	*world
	of elements[T]
	n  int
}

// run makes a call of both ranks in a group, with from elements sent and to received. In place, the
// results begin at elements after what is sent, or before it; nil is never in place. want is
// element i of a rank's result, -1 for one that is not written.
func (x *typedTest[T]) run(name string, from, to int, at func(rank int) int, call func(nccl.Caller, *ferry.Stream, *ferry.Device[T], *ferry.Device[T]) error, want func(rank, i int) int) {
	x.Helper()
	for _, inPlace := range []bool{false, true} {
		if inPlace && at == nil {
			continue
		}
		var group nccl.Group
		var dsts, owned []*ferry.Device[T]
		for r, c := range x.comms {
			values := make([]T, from)
			for i := range values {
				values[i] = x.of(value(r, i))
			}
			src, dst := x.place(r, from, to, at, inPlace)
			check(x, ferry.Copy(x.streams[r], src, ferry.Pageable(values)))
			check(x, call(group.For(c), x.streams[r], dst, src))
			dsts, owned = append(dsts, dst), append(owned, src, dst)
		}
		check(x, group.Submit())
		for r, dst := range dsts {
			got := make([]T, to)
			check(x, ferry.Copy(x.streams[r], ferry.Pageable(got), dst))
			check(x, x.comms[r].Wait(context.Background(), x.streams[r]))
			for i, v := range got {
				if w := want(r, i); w >= 0 && v != x.of(w) {
					x.Errorf("%s of %d, in place %v: element %d of rank %d is %v, want %v", name, x.n, inPlace, i, r, v, x.of(w))
					break
				}
			}
		}
		for _, m := range owned {
			check(x, m.Close())
		}
	}
}

// place returns memory for a call: two buffers, or parts of one.
func (x *typedTest[T]) place(r, from, to int, at func(rank int) int, inPlace bool) (src, dst *ferry.Device[T]) {
	g := x.comms[r].GPU()
	if inPlace {
		whole, err := ferry.Alloc[T](g, max(from, to))
		check(x, err)
		x.Cleanup(func() { check(x, whole.Close()) })
		off := at(r)
		return whole.Range(max(off, 0), max(off, 0)+from), whole.Range(max(-off, 0), max(-off, 0)+to)
	}
	src, err := ferry.Alloc[T](g, from)
	check(x, err)
	dst, err = ferry.Alloc[T](g, to)
	check(x, err)
	check(x, ferry.Fill(x.streams[r], dst, x.of(0)))
	return src, dst
}

// TestPairEnds: a rank that aborts while the other waits for it: the other names it, and its memory is
// free.
func TestPairEnds(t *testing.T) {
	pairs(t, func(t *testing.T, w *world) {
		w.T = t
		var first nccl.Group // NCCL makes connections in the first call, which waits for the other rank
		for r, c := range w.comms {
			x := alloc(w, r, make([]float32, 1<<20))
			check(t, nccl.AllReduce(first.For(c), w.streams[r], x, x, nccl.Sum))
		}
		check(t, first.Submit())
		m := alloc(w, 0, make([]float32, 1<<20))
		check(t, nccl.AllReduce(w.comms[0], w.streams[0], m, m, nccl.Sum))
		began := time.Now()
		check(t, w.comms[1].Abort())
		err := w.comms[0].Wait(context.Background(), w.streams[0])
		if err == nil || time.Since(began) > 10*time.Second {
			t.Errorf("got %v after %v, want the end of rank 1", err, time.Since(began))
		}
		check(t, m.Close())
		if _, err := nccl.ScaledSum(w.comms[0], float32(1)); !errors.Is(err, nccl.ErrClosed) {
			t.Error(err)
		}
	})
}
