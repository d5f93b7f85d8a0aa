package kernels_test

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
)

// update is an atomic function on words of type c: its PTX, and what it stores.
type update struct {
	name, c string
	ptx     string // regular expression of the instruction after atom, without space and scope
	want    func(old, v uint64) uint64
}

// updates are the atomic functions with one value, for the types that CUDA has them for.
func updates() []update {
	var all []update
	integers := []struct {
		c, t, b string
		size    int
		signed  bool
	}{{"int", "s32", "b32", 32, true}, {"u32", "u32", "b32", 32, false}, {"long long", "s64", "b64", 64, true}, {"u64", "u64", "b64", 64, false}}
	for _, i := range integers {
		less := func(x, y uint64) bool {
			if i.signed {
				return int64(extend(x, i.size, true)) < int64(extend(y, i.size, true))
			}
			return x < y
		}
		all = append(all,
			update{"atomicMin", i.c, "min." + i.t, func(o, v uint64) uint64 {
				if less(v, o) {
					return v
				}
				return o
			}},
			update{"atomicMax", i.c, "max." + i.t, func(o, v uint64) uint64 {
				if less(o, v) {
					return v
				}
				return o
			}},
			update{"atomicAnd", i.c, "and." + i.b, func(o, v uint64) uint64 { return o & v }},
			update{"atomicOr", i.c, "or." + i.b, func(o, v uint64) uint64 { return o | v }},
			update{"atomicXor", i.c, "xor." + i.b, func(o, v uint64) uint64 { return o ^ v }})
		if i.c != "long long" {
			all = append(all, update{"atomicAdd", i.c, "add.[su]" + i.t[1:], func(o, v uint64) uint64 { return o + v }},
				update{"atomicExch", i.c, "exch." + i.b, func(o, v uint64) uint64 { return v }})
		}
		if i.size == 32 {
			all = append(all, update{"atomicSub", i.c, "add.[su]32", func(o, v uint64) uint64 { return o - v }})
		}
	}
	return append(all,
		update{"atomicInc", "u32", "inc.u32", func(o, v uint64) uint64 { return b2i(o < v) * (o + 1) }},
		update{"atomicDec", "u32", "dec.u32", func(o, v uint64) uint64 {
			if o == 0 || o > v {
				return v
			}
			return o - 1
		}},
		update{"atomicExch", "float", "exch.b32", func(o, v uint64) uint64 { return v }},
		update{"atomicAdd", "float", "add.f32", func(o, v uint64) uint64 { return bits32(f32(o) + f32(v)) }},
		update{"atomicAdd", "double", "add.f64", func(o, v uint64) uint64 { return math.Float64bits(f64(o) + f64(v)) }})
}

// size returns the bytes of the words of u.
func (u *update) size() int {
	if u.c == "u64" || u.c == "long long" || u.c == "double" {
		return 8
	}
	return 4
}

// atomicValues are pairs of an old and a new word for u.
func (u *update) values() [][2]uint64 {
	edge := []uint64{0, 1, 2, 7, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, 0xfffffffffffffffe}
	switch u.c {
	case "float":
		edge = []uint64{bits32(0), bits32(1), bits32(-2.5), bits32(1e30)}
	case "double":
		edge = []uint64{0, math.Float64bits(1), math.Float64bits(-2.5), math.Float64bits(1e300)}
	}
	var all [][2]uint64
	for _, a := range edge {
		for _, b := range edge {
			if u.size() == 4 {
				a, b = a&0xffffffff, b&0xffffffff
			}
			all = append(all, [2]uint64{a, b})
		}
	}
	return all
}

// TestAtomics compares each atomic function in its three scopes with Go, in one thread, and
// checks the instruction and its scope in the PTX.
func TestAtomics(t *testing.T) {
	for _, b := range builds(t, "sm_60", "sm_80") {
		t.Run(b.String(), func(t *testing.T) {
			for suffix, scope := range map[string]string{"": "", "_block": ".cta", "_system": ".sys"} {
				testScope(t, b, suffix, scope)
			}
		})
	}
}

// testScope tests the functions with a suffix. Each has a kernel of its own, whose PTX is
// checked, and is called in the kernel test.
func testScope(t *testing.T, b build, suffix, scope string) {
	all := updates()
	var s, calls strings.Builder
	s.WriteString(preamble)
	var io []uint64
	for i, u := range all {
		fmt.Fprintf(&s, "__device__ __forceinline__ void f%d(u64 *io, int n) { for (int i = 0; i < n; i++) io[3 * i + 2] = R(%s%s((%s *)(io + 3 * i), __builtin_bit_cast(%[4]s, (%s)io[3 * i + 1]))); }\n",
			i, u.name, suffix, u.c, map[int]string{4: "u32", 8: "u64"}[u.size()])
		fmt.Fprintf(&s, "extern \"C\" __global__ void k%d(u64 *io, int n) { f%[1]d(io, n); }\n", i)
		fmt.Fprintf(&calls, "f%d(out + %d, %d);\n", i, len(io), len(u.values()))
		for _, v := range u.values() {
			io = append(io, v[0], v[1], 0xdeadbeefdeadbeef)
		}
	}
	ptx := b.compile(t, s.String()+"extern \"C\" __global__ void test(const u64 *, u64 *out) {"+calls.String()+"}\n")
	io = run(t, ptx, ferry.Cover(1, 1), []uint64{0}, io)
	for i, u := range all {
		t.Run(u.name+suffix+"/"+u.c, func(t *testing.T) {
			u.compare(t, io[:3*len(u.values())])
			if want := `atom(\.global)?` + scope + `(\.global)?\.` + u.ptx + `[ \t]`; !regexp.MustCompile(want).MatchString(entry(ptx, i)) {
				t.Errorf("the PTX does not match %s:\n%s", want, entry(ptx, i))
			}
		})
		io = io[3*len(u.values()):]
	}
}

// entry returns the PTX of kernel ki.
func entry(ptx string, i int) string {
	_, body, _ := strings.Cut(ptx, fmt.Sprintf(".entry k%d(", i))
	body, _, _ = strings.Cut(body, "\n}")
	return body
}

// compare compares triples of a changed word, a value, and a result with Go.
func (u *update) compare(t *testing.T, io []uint64) {
	t.Helper()
	mask := uint64(1)<<(8*u.size()-1)<<1 - 1
	for k, v := range u.values() {
		want := u.want(v[0], v[1]) & mask
		if got := io[3*k]; got != want || io[3*k+2] != v[0] {
			t.Errorf("%#x with %#x: stored %#x and returned %#x, want %#x and %#x", v[0], v[1], got, io[3*k+2], want, v[0])
			return
		}
	}
}

// TestAtomicThreads runs atomics of many threads on one word.
func TestAtomicThreads(t *testing.T) {
	const n = 512
	source := preamble + `
extern "C" __global__ void test(const u64 *in, u64 *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ unsigned s;
    if (threadIdx.x == 0) s = 0;
    __syncthreads();
    atomicAdd((int *)&out[0], 1);
    atomicAdd_block(&s, 2u);
    for (u32 old = *(volatile u32 *)&out[1], seen;; old = seen)
        if ((seen = atomicCAS((u32 *)&out[1], old, old + 3)) == old) break;
    for (u64 old = *(volatile u64 *)&out[2], seen;; old = seen)
        if ((seen = atomicCAS(&out[2], old, old + in[0])) == old) break;
    for (int old = 0, seen;; old = seen)
        if ((seen = atomicCAS((int *)&out[3], old, old - 1)) == old) break;
    for (u64 old = 0, seen;; old = seen)
        if ((seen = atomicCAS_system(&out[4], old, old + 5)) == old) break;
    for (u32 old = 0, seen;; old = seen)
        if ((seen = atomicCAS_block((u32 *)&out[5 + blockIdx.x], old, old + 1)) == old) break;
    atomicAdd((half2 *)&out[9], __floats2half2_rn(1, 2));
#if __CUDA_ARCH__ >= 700
    atomicAdd((half *)&out[10], half(1));
    for (unsigned short old = 0, seen;; old = seen)
        if ((seen = atomicCAS((unsigned short *)&out[11], old, old + 1)) == old) break;
#endif
#if __CUDA_ARCH__ >= 800
    if (i < 100) atomicAdd((__nv_bfloat16 *)&out[12], __nv_bfloat16(1));
    if (i < 100) atomicAdd((__nv_bfloat162 *)&out[13], __floats2bfloat162_rn(1, 2));
#endif
    __syncthreads();
    if (i == 0) out[8] = s;
}`
	for _, b := range builds(t, "sm_60", "sm_80") {
		t.Run(b.String(), func(t *testing.T) {
			want := []uint64{n, 3 * n, 7 * n, s32(-n), 5 * n, n / 2, n / 2, 0, n, formats[0].encode(n) | formats[0].encode(2*n)<<16}
			if b.arch == "sm_80" {
				want = append(want, formats[0].encode(n), n, formats[1].encode(100), formats[1].encode(100)|formats[1].encode(200)<<16)
			}
			out := zeroed(t, b.compile(t, source), ferry.Cover(n, n/2), []uint64{7}, len(want))
			for i := range want {
				if out[i] != want[i] {
					t.Errorf("word %d is %#x, want %#x", i, out[i], want[i])
				}
			}
		})
	}
}
