package kernels_test

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
)

// warpRow is an expression of a lane's word v and its number l, and what it must be in each
// lane.
type warpRow struct {
	expr string
	want func(v []uint64, l int) uint64
}

// ballot returns the lanes for which p is true.
func ballot(p func(l int) bool) uint64 {
	var m uint64
	for l := range 32 {
		m |= b2i(p(l)) << l
	}
	return m
}

// shuffles are the shuffles: the lane from which a lane reads with a distance and a width.
var shuffles = []struct {
	name string
	from func(l, k, width int) int
}{
	{"__shfl_sync", func(l, k, w int) int { return l/w*w + k%w }},
	{"__shfl_up_sync", func(l, k, w int) int {
		if l%w < k {
			return l
		}
		return l - k
	}},
	{"__shfl_down_sync", func(l, k, w int) int {
		if l%w+k >= w {
			return l
		}
		return l + k
	}},
	{"__shfl_xor_sync", func(l, k, w int) int {
		if to := l ^ k; to/w <= l/w { // a lane reads from its group and those before
			return to
		}
		return l
	}},
}

// shuffleRows returns a row for each shuffle, type, distance and width.
func shuffleRows() []warpRow {
	var rows []warpRow
	types := map[string]uint64{"(int)v": 0xffffffff, "(u32)v": 0xffffffff, "v": ^uint64(0), "(long long)v": ^uint64(0), "(long)v": ^uint64(0),
		"(unsigned long)v": ^uint64(0), "F(v)": 0xffffffff, "D(v)": ^uint64(0), "H(v)": 0xffff, "H2(v)": 0xffffffff, "B(v)": 0xffff, "B2(v)": 0xffffffff}
	for _, s := range shuffles {
		for c, mask := range types {
			for _, k := range []int{0, 1, 5, 16, 31} {
				rows = append(rows, warpRow{fmt.Sprintf("%s(~0u, %s, %d)", s.name, c, k), func(v []uint64, l int) uint64 { return v[s.from(l, k, 32)] & mask }})
			}
		}
		for _, w := range []int{1, 2, 4, 8, 16} {
			for _, k := range []int{0, 1, 3, 9} {
				rows = append(rows, warpRow{fmt.Sprintf("%s(~0u, (u32)v, %d, %d)", s.name, k, w), func(v []uint64, l int) uint64 {
					return v[s.from(l, k, w)] & 0xffffffff
				}})
			}
		}
	}
	return rows
}

// voteRows returns rows of votes, masks and matches.
func voteRows() []warpRow {
	return []warpRow{
		{"__ballot_sync(~0u, v & 1)", func(v []uint64, l int) uint64 { return ballot(func(l int) bool { return v[l]&1 == 1 }) }},
		{"__any_sync(~0u, l == 7)", func([]uint64, int) uint64 { return 1 }},
		{"__any_sync(~0u, l == 32)", func([]uint64, int) uint64 { return 0 }},
		{"__all_sync(~0u, l < 32)", func([]uint64, int) uint64 { return 1 }},
		{"__all_sync(~0u, l < 31)", func([]uint64, int) uint64 { return 0 }},
		{"__uni_sync(~0u, l < 32)", func([]uint64, int) uint64 { return 1 }},
		{"__uni_sync(~0u, l < 31)", func([]uint64, int) uint64 { return 0 }},
		{"__activemask()", func([]uint64, int) uint64 { return 0xffffffff }},
		{"__lane_id()", func(_ []uint64, l int) uint64 { return uint64(l) }},
		{"__lanemask_lt()", func(_ []uint64, l int) uint64 { return 1<<l - 1 }},
		{"__lanemask_le()", func(_ []uint64, l int) uint64 { return 2<<l - 1 }},
		{"__lanemask_eq()", func(_ []uint64, l int) uint64 { return 1 << l }},
		{"__lanemask_ge()", func(_ []uint64, l int) uint64 { return 0xffffffff &^ (1<<l - 1) }},
		{"__lanemask_gt()", func(_ []uint64, l int) uint64 { return 0xffffffff &^ (2<<l - 1) }},
	}
}

// newRows returns rows of matches (sm_70) and reductions (sm_80).
func newRows() []warpRow {
	var rows []warpRow
	for _, c := range []string{"(int)(v & 3)", "(u32)(v & 3)", "(float)(v & 3)", "(v & 3)", "(long long)(v & 3)", "(double)(v & 3)", "(long)(v & 3)", "(unsigned long)(v & 3)"} {
		rows = append(rows, warpRow{"__match_any_sync(~0u, " + c + ")", func(v []uint64, l int) uint64 {
			return ballot(func(k int) bool { return v[k]&3 == v[l]&3 })
		}}, warpRow{"([](auto x) { int p = 7; unsigned m = __match_all_sync(~0u, x, &p); return m + p; })(" + c + ")", func([]uint64, int) uint64 { return 0 }})
	}
	rows = append(rows, warpRow{"([]() { int p = 7; unsigned m = __match_all_sync(~0u, 5, &p); return m + p; })()", func([]uint64, int) uint64 { return 0 }})
	fold := func(f func(x, y uint64) uint64) func(v []uint64, l int) uint64 {
		return func(v []uint64, _ int) uint64 {
			r := v[0] & 0xffffffff
			for _, x := range v[1:] {
				r = f(r, x&0xffffffff)
			}
			return r & 0xffffffff
		}
	}
	pick := func(less func(x, y uint64) bool) func(x, y uint64) uint64 {
		return func(x, y uint64) uint64 {
			if less(x, y) {
				return x
			}
			return y
		}
	}
	rows = append(rows, partRows()...)
	return append(rows,
		warpRow{"__reduce_add_sync(~0u, (int)v)", fold(func(x, y uint64) uint64 { return x + y })},
		warpRow{"__reduce_add_sync(~0u, (u32)v)", fold(func(x, y uint64) uint64 { return x + y })},
		warpRow{"__reduce_min_sync(~0u, (int)v)", fold(pick(func(x, y uint64) bool { return int32(x) < int32(y) }))},
		warpRow{"__reduce_min_sync(~0u, (u32)v)", fold(pick(func(x, y uint64) bool { return uint32(x) < uint32(y) }))},
		warpRow{"__reduce_max_sync(~0u, (int)v)", fold(pick(func(x, y uint64) bool { return int32(x) > int32(y) }))},
		warpRow{"__reduce_max_sync(~0u, (u32)v)", fold(pick(func(x, y uint64) bool { return uint32(x) > uint32(y) }))},
		warpRow{"__reduce_and_sync(~0u, (u32)v | 0xff)", func(v []uint64, _ int) uint64 {
			r := uint64(0xffffffff)
			for _, x := range v {
				r &= x | 0xff
			}
			return r
		}},
		warpRow{"__reduce_or_sync(~0u, (u32)v)", fold(func(x, y uint64) uint64 { return x | y })},
		warpRow{"__reduce_xor_sync(~0u, (u32)v)", fold(func(x, y uint64) uint64 { return x ^ y })})
}

// partRows returns rows of parts of groups. part packs the rank, the size, the rank among the
// parts, and their number.
func partRows() []warpRow {
	part := func(label func(l int) int, groups func(l int) int) func([]uint64, int) uint64 {
		return func(_ []uint64, l int) uint64 {
			rank, size := 0, 0
			firsts := map[int]bool{}
			before := map[int]bool{}
			for k := range 32 {
				if groups(k) != groups(l) {
					continue
				}
				if label(k) == label(l) {
					size++
					if k < l {
						rank++
					}
				} else if !firsts[label(l)] {
					before[label(k)] = true
				}
				firsts[label(k)] = true
			}
			return uint64(rank + 100*size + 10000*len(before) + 1000000*len(firsts))
		}
	}
	whole := func(int) int { return 0 }
	return []warpRow{
		{"part(cg::labeled_partition(w, l % 5))", part(func(l int) int { return l % 5 }, whole)},
		{"part(cg::labeled_partition(h, (l * 7) % 3))", part(func(l int) int { return l * 7 % 3 }, func(l int) int { return l / 8 })},
		{"part(cg::binary_partition(w, l >= 10))", part(func(l int) int { return min(l/10, 1) }, whole)},
		{"part(cg::binary_partition(w, l < 40))", part(whole, whole)},
		{"part(cg::tiled_partition<4>(cg::coalesced_threads()))", part(func(l int) int { return l / 4 }, whole)},
		{"part(cg::thread_block_tile<8>(h))", part(func(l int) int { return l / 8 }, whole)},
		{"part(cg::tiled_partition<2>(h))", part(func(l int) int { return l / 2 }, func(l int) int { return l / 8 })},
		{"cg::inclusive_scan(h, l)", func(_ []uint64, l int) uint64 { return uint64((l/8*8 + l) * (l%8 + 1) / 2) }},
		{"cg::exclusive_scan(w, l + 1)", func(_ []uint64, l int) uint64 { return uint64(l * (l + 1) / 2) }},
		{"cg::inclusive_scan(cg::binary_partition(w, l & 1), l, cg::greater<int>())", func(_ []uint64, l int) uint64 { return uint64(l) }},
		{"cg::invoke_one_broadcast(h, [=] { return l + 3; })", func(_ []uint64, l int) uint64 { return uint64(l/8*8 + 3) }},
		{"copied(w, in, l)", func(v []uint64, l int) uint64 { return v[l^3] }},
	}
}

// groupRows returns rows of cooperative groups: w is a tile of 32, h of 8, c the lanes with
// l % 3 == 0 or the others.
func groupRows() []warpRow {
	mine := func(l int) []int {
		var m []int
		for k := range 32 {
			if (k%3 == 0) == (l%3 == 0) {
				m = append(m, k)
			}
		}
		return m
	}
	rank := func(l int) int {
		for i, k := range mine(l) {
			if k == l {
				return i
			}
		}
		return -1
	}
	return []warpRow{
		{"b.thread_rank() + 1000 * b.size()", func(_ []uint64, l int) uint64 { return uint64(l) + 32000 }},
		{"w.thread_rank() + 100 * w.meta_group_rank() + 1000 * w.meta_group_size()", func(_ []uint64, l int) uint64 { return uint64(l) + 1000 }},
		{"h.thread_rank() + 100 * h.meta_group_rank() + 1000 * h.meta_group_size()", func(_ []uint64, l int) uint64 { return uint64(l%8 + l/8*100 + 4000) }},
		{"h.shfl_down((u32)v, 3)", func(v []uint64, l int) uint64 { return v[shuffles[2].from(l, 3, 8)] & 0xffffffff }},
		{"h.shfl_up((u32)v, 3)", func(v []uint64, l int) uint64 { return v[shuffles[1].from(l, 3, 8)] & 0xffffffff }},
		{"h.shfl_xor(v, 5)", func(v []uint64, l int) uint64 { return v[l^5] }},
		{"h.shfl(D(v), 2)", func(v []uint64, l int) uint64 { return v[l/8*8+2] }},
		{"h.ballot(v & 1)", func(v []uint64, l int) uint64 {
			return ballot(func(k int) bool { return v[k]&1 == 1 }) >> (l / 8 * 8) & 0xff
		}},
		{"h.any(l == 9)", func(_ []uint64, l int) uint64 { return b2i(l/8 == 1) }},
		{"h.all(l < 8)", func(_ []uint64, l int) uint64 { return b2i(l < 8) }},
		{"cg::reduce(w, (u32)v, cg::plus<u32>())", func(v []uint64, _ int) uint64 {
			var sum uint64
			for _, x := range v {
				sum += x
			}
			return sum & 0xffffffff
		}},
		{"cg::reduce(h, l, cg::greater<int>())", func(_ []uint64, l int) uint64 { return uint64(l/8*8 + 7) }},
		{"cg::reduce(h, l, cg::less<int>())", func(_ []uint64, l int) uint64 { return uint64(l / 8 * 8) }},
		{"any(b) + 10000 * any(w) + 100000000ull * any(h)", func(_ []uint64, l int) uint64 {
			return uint64(l+3200) + 10000*uint64(l+3200) + 100000000*uint64(l%8+800)
		}},
		{"any(cg::tiled_partition(b, 4)) + 10000 * any(cg::tiled_partition(h, 2))", func(_ []uint64, l int) uint64 {
			return uint64(l%4+400) + 10000*uint64(l%2+200)
		}},
		{"pairs(l)", func(_ []uint64, l int) uint64 {
			m, r := mine(l), rank(l)
			return uint64(r%2 + 100*min(2, len(m)-r/2*2))
		}},
		{"group(v, l)", func(v []uint64, l int) uint64 {
			m, r := mine(l), rank(l)
			down, up := l, l
			if r+1 < len(m) {
				down = m[r+1]
			}
			if r >= 2 {
				up = m[r-2]
			}
			odd := ballot(func(k int) bool { return v[k]&1 == 1 && (k%3 == 0) == (l%3 == 0) })
			return uint64(r+100*len(m)+10000*down+1000000*up) + uint64(bits.OnesCount64(odd))<<40
		}},
	}
}

// groupCode makes the groups that groupRows names.
const groupCode = `
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;
template <class G> __device__ u64 part(const G &g) { return g.thread_rank() + 100 * g.size() + 10000 * g.meta_group_rank() + 1000000 * g.meta_group_size(); }
template <class G> __device__ u64 copied(const G &g, const u64 *in, int l) {
    __shared__ u64 s[32], p[32];
    cg::memcpy_async(g, s, in, 256);
    cg::wait(g);
    nvcuda::experimental::pipeline pipe;
    nvcuda::experimental::memcpy_async(p[l], in[l ^ 1], pipe);
    pipe.commit_and_wait();
    g.sync();
    u64 r = s[l] == in[l] ? p[l ^ 2] : 0;
    cg::memcpy_async(g, p, s, 256); // not asynchronous
    cg::wait(g);
    return p[l] == in[l] ? r : 1;
}
__device__ u64 any(cg::thread_group g) { g.sync(); return g.thread_rank() + 100 * g.size(); }
__device__ u64 pairs(int l) {
    u64 r = 0;
    for (int part = 0; part < 2; part++)
        if ((l % 3 == 0) == (part == 0)) r = any(cg::tiled_partition(cg::coalesced_threads(), 2));
    return r;
}
__device__ u64 group(u64 v, int l) {
    u64 r = 0;
    for (int part = 0; part < 2; part++)
        if ((l % 3 == 0) == (part == 0)) {
            cg::coalesced_group c = cg::coalesced_threads();
            r = c.thread_rank() + 100 * c.size() + c.shfl_down(l, 1) * 10000ull + c.shfl_up(l, 2) * 1000000ull + ((u64)__popc(c.ballot(v & 1)) << 40);
            c.sync();
        }
    return r;
}
`

// testWarp runs the rows in one warp.
func testWarp(t *testing.T, rows []warpRow, archs ...string) {
	var s strings.Builder
	s.WriteString(preamble + groupCode + "extern \"C\" __global__ void test(const u64 *in, u64 *out) {\n    int l = threadIdx.x;\n    u64 v = in[l];\n")
	s.WriteString("    auto b = cg::this_thread_block(); auto w = cg::tiled_partition<32>(b); auto h = cg::tiled_partition<8>(w); (void)w; (void)h;\n")
	for i, r := range rows {
		fmt.Fprintf(&s, "    out[%d + l] = R(%s);\n", 32*i, r.expr)
	}
	s.WriteString("}\n")
	v := make([]uint64, 32)
	for i := range v {
		v[i] = uint64(i+1) * 0x9e3779b97f4a7c15
	}
	for _, b := range builds(t, archs...) {
		t.Run(b.String(), func(t *testing.T) {
			out := words(t, b.compile(t, s.String()), ferry.Cover(32, 32), v, 32*len(rows))
			for i, r := range rows {
				compareWarp(t, r, v, out[32*i:][:32])
			}
		})
	}
}

// compareWarp reports the first wrong lane of a row. Bits above those of its type are 0.
func compareWarp(t *testing.T, r warpRow, v, got []uint64) {
	t.Helper()
	for l := range 32 {
		if want := r.want(v, l); got[l] != want {
			t.Errorf("%s in lane %d: got %#x, want %#x", r.expr, l, got[l], want)
			return
		}
	}
}

// TestWarp compares votes, shuffles, matches, reductions and groups with Go.
func TestWarp(t *testing.T) {
	t.Run("votes", func(t *testing.T) { testWarp(t, voteRows(), "sm_52", "sm_80") })
	t.Run("shuffles", func(t *testing.T) { testWarp(t, shuffleRows(), "sm_52", "sm_80") })
	t.Run("new", func(t *testing.T) { testWarp(t, newRows(), "sm_80") })
	t.Run("groups", func(t *testing.T) { testWarp(t, groupRows(), "sm_52", "sm_80") })
}
