package differ

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"hash/fnv"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"testing"
	unicode "unicode/utf8"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// of returns a buffer's numbers. put writes them back.
func of[T any](b []byte) []T {
	var one T
	out := make([]T, len(b)/binary.Size(one))
	if _, err := binary.Decode(b, binary.LittleEndian, out); err != nil {
		panic(err)
	}
	return out
}

func put[T any](b []byte, v []T) {
	if _, err := binary.Encode(b, binary.LittleEndian, v); err != nil {
		panic(err)
	}
}

// each calls f with the numbers of two buffers, and writes the second buffer back.
func each[A, B any](b [][]byte, from, to int, f func(a []A, out []B)) {
	out := of[B](b[to])
	f(of[A](b[from]), out)
	put(b[to], out)
}

// references are implementations of kernels in plain Go, written from the purpose of each
// kernel and not from its source. Each gets the buffers before a launch, and changes them
// to the expected contents after it.
var references = map[string]func(b [][]byte){
	"reduce_tree": func(b [][]byte) {
		each(b, 0, 1, func(in, out []int32) {
			clear(out)
			for i, v := range in {
				out[i/512] += v
			}
		})
	},
	"reduce_last_block": func(b [][]byte) {
		partial := of[int64](b[1])
		clear(partial)
		var all int64
		for i, v := range of[int32](b[0]) {
			partial[i/128%9] += int64(v) * int64(v)
			all += int64(v) * int64(v)
		}
		put(b[1], partial)
		put(b[2], []uint32{9})
		put(b[3], []int64{all})
	},
	"scan_hillis":   func(b [][]byte) { scan(b, 256, true) },
	"scan_blelloch": func(b [][]byte) { scan(b, 256, false) },
	"scan_warp":     func(b [][]byte) { scan(b, 320, true) },
	"scan_lookback": func(b [][]byte) {
		scan(b, math.MaxInt, true)
		prefixes, sums := of[uint64](b[2]), of[uint32](b[1])
		for i := range prefixes {
			prefixes[i] = uint64(sums[256*i+255])<<2 | 2
		}
		put(b[2], prefixes)
		put(b[3], []uint32{12})
	},
	"transpose_naive":  func(b [][]byte) { transpose[uint32](b, 37, 33) },
	"transpose_shared": func(b [][]byte) { transpose[uint32](b, 48, 50) },
	"transpose_padded": func(b [][]byte) { transpose[uint32](b, 50, 48) },
	"transpose_bytes":  func(b [][]byte) { transpose[uint8](b, 70, 60) },
	"transpose_bits": func(b [][]byte) {
		each(b, 0, 1, func(in, out []uint32) {
			for i := range out {
				out[i] = 0
				for k := range 32 {
					out[i] |= in[i/32*32+k] >> (i % 32) & 1 << k
				}
			}
		})
	},
	"histogram_global": func(b [][]byte) { histogram(b, func(v byte) int { return int(v) }) },
	"histogram_shared": func(b [][]byte) { histogram(b, func(v byte) int { return int(v) }) },
	"histogram_warps":  func(b [][]byte) { histogram(b, func(v byte) int { return int(v >> 2) }) },
	"histogram_match":  func(b [][]byte) { histogram(b, func(v byte) int { return int(v & 15) }) },
	"sort_bitonic": func(b [][]byte) {
		each(b, 0, 0, func(_, out []int32) {
			// All blocks of 256 rise, because the direction of the last step depends on the thread alone.
			slices.Sort(out[:256])
			slices.Sort(out[256:])
		})
	},
	"sort_odd_even": func(b [][]byte) {
		each(b, 0, 0, func(_, out []uint32) {
			slices.Sort(out[:128])
			slices.Sort(out[128:])
		})
	},
	"sort_radix": func(b [][]byte) {
		keys, values := of[uint32](b[0]), of[uint32](b[1])
		for i := 0; i < len(keys); i += 128 {
			order := make([]int, 128)
			for k := range order {
				order[k] = i + k
			}
			slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(keys[x], keys[y]) })
			k, v := slices.Clone(keys), slices.Clone(values)
			for at, from := range order {
				keys[i+at], values[i+at] = k[from], v[from]
			}
		}
		put(b[0], keys)
		put(b[1], values)
	},
	"sort_merge": func(b [][]byte) {
		all := append(of[int32](b[0]), of[int32](b[1])...)
		slices.Sort(all)
		put(b[2], all)
	},
	"warp_sort": func(b [][]byte) {
		each(b, 0, 0, func(_, out []int32) {
			for i := 0; i < len(out); i += 32 {
				slices.Sort(out[i : i+32])
			}
		})
	},
	"matrix_double": func(b [][]byte) {
		x, y, z := of[float64](b[0]), of[float64](b[1]), of[float64](b[2])
		for i := range z {
			z[i] = 0
			for k := range 23 {
				z[i] = math.FMA(x[i/23*23+k], y[k*23+i%23], z[i])
			}
		}
		put(b[2], z)
	},
	"matrix_dp4a": func(b [][]byte) {
		x, y, z := of[int8](b[0]), of[int8](b[1]), of[int32](b[2])
		for i := range z {
			z[i] = 0
			for k := range 32 {
				z[i] += int32(x[i/17*32+k]) * int32(y[i%17*32+k])
			}
		}
		put(b[2], z)
	},
	"hash_fnv": func(b [][]byte) {
		messages(b, 19, func(m []byte) uint32 { h := fnv.New32a(); h.Write(m); return h.Sum32() })
	},
	"hash_fnv64": func(b [][]byte) {
		messages(b, 19, func(m []byte) uint64 { h := fnv.New64a(); h.Write(m); return h.Sum64() })
	},
	"hash_crc32": func(b [][]byte) { messages(b, 21, crc32.ChecksumIEEE) },
	"hash_sha256": func(b [][]byte) {
		out := of[uint32](b[1])
		for i := range len(out) / 8 {
			sum := sha256.Sum256(b[0][50*i : 50*i+50])
			for k := range 8 {
				out[8*i+k] = binary.BigEndian.Uint32(sum[4*k:])
			}
		}
		put(b[1], out)
	},
	"random_splitmix": func(b [][]byte) {
		each(b, 0, 1, func(seed, out []uint64) {
			for i := range out {
				z := seed[i/8] + uint64(i%8+1)*0x9e3779b97f4a7c15
				z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
				z = (z ^ z>>27) * 0x94d049bb133111eb
				out[i] = z ^ z>>31
			}
		})
	},
	"text_search": func(b [][]byte) {
		count, first := uint32(0), uint32(1<<30)
		for i := range 2000 - 5 {
			if slices.Equal(b[0][i:i+6], b[2]) {
				count++
				first = min(first, uint32(i))
			}
		}
		put(b[4], []uint32{count})
		put(b[5], []uint32{first})
	},
	"text_base64": func(b [][]byte) { base64.StdEncoding.Encode(b[1], b[0]) },
	"text_hex":    func(b [][]byte) { hex.Encode(b[1], b[0]) },
	"text_utf8": func(b [][]byte) {
		each(b, 0, 1, func(_ []uint8, out []int32) {
			for i := range out {
				p := b[0][16*i : 16*i+16]
				if unicode.Valid(p) {
					out[i] = int32(unicode.RuneCount(p))
				} else if out[i] >= 0 || out[i] < -1016 {
					out[i] = wrongUTF8(p)
				}
			}
		})
	},
	"text_atoi": func(b [][]byte) {
		each(b, 0, 1, func(_ []uint8, out []int64) {
			for i := range out {
				p := string(b[0][16*i : 16*i+16])
				n := len(p)
				for n > 0 && p[:n] != "-" {
					if _, err := strconv.ParseInt(p[:n], 10, 64); err == nil {
						break
					}
					n--
				}
				out[i], _ = strconv.ParseInt(p[:n], 10, 64)
			}
		})
	},
	"text_itoa": func(b [][]byte) {
		for i, v := range of[int64](b[0]) {
			copy(b[1][24*i:], strconv.FormatInt(v, 10)+"                        "[:24-len(strconv.FormatInt(v, 10))])
		}
	},
	"diverge_collatz": func(b [][]byte) {
		each(b, 0, 1, func(in, out []uint32) {
			for i, v := range in {
				out[i] = 0
				for x := uint64(v&0xfffff) + 1; x != 1; out[i]++ {
					if x%2 == 1 {
						x = 3*x + 1
					} else {
						x /= 2
					}
				}
			}
		})
	},
	"diverge_gcd": func(b [][]byte) {
		x, y, z := of[uint64](b[0]), of[uint64](b[1]), of[uint64](b[2])
		for i := range z {
			p, q := new(big.Int).SetUint64(x[i]), new(big.Int).SetUint64(y[i])
			z[i] = p.GCD(nil, nil, p, q).Uint64()
		}
		put(b[2], z)
	},
	"diverge_primes": func(b [][]byte) {
		each(b, 0, 0, func(_, out []uint32) {
			for i := range out {
				n := uint32(9900 + i)
				for d := uint32(2); ; d++ {
					if n%d == 0 {
						out[i] = d
						break
					}
				}
			}
		})
	},
	"big_multiply": func(b [][]byte) {
		for i := range 64 {
			p := new(big.Int).Mul(number(b[0][32*i:32*i+32]), number(b[1][32*i:32*i+32]))
			p.FillBytes(b[2][64*i : 64*i+64])
			slices.Reverse(b[2][64*i : 64*i+64])
		}
	},
	"big_power": func(b [][]byte) {
		x, e, m, z := of[uint64](b[0]), of[uint64](b[1]), of[uint64](b[2]), of[uint64](b[3])
		for i := range z {
			n := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
			z[i] = new(big.Int).Exp(n(x[i]), n(e[i]>>40), n(m[i]|1)).Uint64()
		}
		put(b[3], z)
	},
	"int_div64": func(b [][]byte) {
		x, y, z := of[int64](b[0]), of[int64](b[1]), of[int64](b[2])
		for i := range x {
			d := y[i]
			if d == 0 {
				d = 1
			} else if d == -1 {
				d = 3
			}
			z[4*i], z[4*i+1] = x[i]/d, x[i]%d
			z[4*i+2], z[4*i+3] = int64(uint64(x[i])/uint64(d)), int64(uint64(x[i])%uint64(d))
		}
		put(b[2], z)
	},
	"int_roots": func(b [][]byte) {
		each(b, 0, 1, func(in []uint64, out []uint32) {
			for i, v := range in {
				out[2*i] = uint32(new(big.Int).Sqrt(new(big.Int).SetUint64(v)).Uint64())
				out[2*i+1] = uint32(63 - bits.LeadingZeros64(v|1))
			}
		})
	},
	"warp_compact": func(b [][]byte) {
		in, out, kept := of[int32](b[0]), of[int32](b[1]), of[uint32](b[2])
		clear(kept)
		for i, v := range in {
			if v > 0 {
				out[i/32*32+int(kept[i/32])] = v
				kept[i/32]++
			}
		}
		put(b[1], out)
		put(b[2], kept)
	},
	"warp_aggregate": func(b [][]byte) {
		value, sum := of[uint32](b[1]), of[uint32](b[2])
		for i, k := range of[uint32](b[0]) {
			sum[k&31] += value[i]
		}
		put(b[2], sum)
	},
	"union_find": func(b [][]byte) {
		root, edge := of[uint32](b[0]), of[uint32](b[1])
		for i := range root {
			root[i] = uint32(i)
		}
		for range root { // enough for the longest path
			for i := 0; i < len(edge); i += 2 {
				least := min(root[edge[i]], root[edge[i+1]])
				root[edge[i]], root[edge[i+1]] = least, least
			}
		}
		put(b[0], root)
	},
	"tensor_s8": func(b [][]byte) {
		x, y, z := of[int8](b[0]), of[int8](b[1]), of[int32](b[2])
		for g := range 4 {
			fragments(16, 8, 32, func(row, column, k int) (int, int, int) {
				return g*512 + fragmentA(row, k, 4), g*256 + fragmentB(k, column, 4), g*128 + fragmentC(row, column)
			}, func(i, j, to int) { z[to] += int32(x[i]) * int32(y[j]) })
		}
		put(b[2], z)
	},
	"tensor_f16": func(b [][]byte) {
		z := of[float32](b[2])
		for g := range 4 {
			fragments(16, 8, 16, func(row, column, k int) (int, int, int) {
				return g*256 + fragmentA(row, k, 2), g*128 + fragmentB(k, column, 2), g*128 + fragmentC(row, column)
			}, func(i, j, to int) { z[to] += float32(F16.float(b[0][2*i:]) * F16.float(b[1][2*j:])) })
		}
		put(b[2], z)
	},
}

// fragments computes a product of matrices. at returns the indices of the elements.
func fragments(m, n, k int, at func(row, column, k int) (a, b, c int), add func(a, b, c int)) {
	for row := range m {
		for column := range n {
			for i := range k {
				add(at(row, column, i))
			}
		}
	}
}

// fragmentA returns the index of element (row, k) of a 16-row matrix. The memory has
// the registers one after the other, each for 32 lanes with per elements.
func fragmentA(row, k, per int) int {
	lane, register := row%8*4+k/per%4, row/8+k/(4*per)*2
	return (register*32+lane)*per + k%per
}

func fragmentB(k, column, per int) int {
	lane, register := column*4+k/per%4, k/(4*per)
	return (register*32+lane)*per + k%per
}

// fragmentC returns the index of a result. Each lane has four adjacent ones.
func fragmentC(row, column int) int {
	return (row%8*4+column/2)*4 + row/8*2 + column%2
}

func scan(b [][]byte, block int, inclusive bool) {
	each(b, 0, 1, func(in, out []uint32) {
		var sum uint32
		for i, v := range in {
			if i%block == 0 {
				sum = 0
			}
			out[i] = sum
			if sum += v; inclusive {
				out[i] = sum
			}
		}
	})
}

func transpose[T any](b [][]byte, w, h int) {
	each(b, 0, 1, func(in, out []T) {
		for i, v := range in {
			out[i%w*h+i/w] = v
		}
	})
}

func histogram(b [][]byte, bin func(v byte) int) {
	each(b, 0, 1, func(in []uint8, out []uint32) {
		for _, v := range in {
			out[bin(v)]++
		}
	})
}

func messages[T any](b [][]byte, n int, sum func(m []byte) T) {
	each(b, 0, 1, func(in []uint8, out []T) {
		for i := range out {
			out[i] = sum(in[n*i : n*i+n])
		}
	})
}

// wrongUTF8 returns the result of text_utf8 for a record that is not well-formed.
func wrongUTF8(p []byte) int32 {
	i := 0
	for {
		r, n := unicode.DecodeRune(p[i:])
		if r == unicode.RuneError && n == 1 {
			break
		}
		i += n
	}
	c := p[i]
	more := 9
	switch {
	case c >= 0xc2 && c <= 0xdf:
		more = 1
	case c&0xf0 == 0xe0:
		more = 2
	case c >= 0xf0 && c <= 0xf4:
		more = 3
	}
	if more == 9 || i+more >= len(p) {
		return int32(-1 - i)
	}
	return int32(-1000 - i)
}

// number returns the number with the given little-endian bytes.
func number(b []byte) *big.Int {
	c := slices.Clone(b)
	slices.Reverse(c)
	return new(big.Int).SetBytes(c)
}

// TestReferences compares kernels on the software GPU with plain Go.
func TestReferences(t *testing.T) {
	for name, reference := range references {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(Cases, func(c Case) bool { return c.Kernel == name })
			if i < 0 {
				t.Fatal("no such kernel")
			}
			c := &Cases[i]
			for _, target := range targets(t, c.Family) {
				if !c.On(target) {
					continue
				}
				b := bench(t, software(t), source(t, c.Family, target))
				for seed := range uint64(sample.Count(1, 3)) {
					want := c.Inputs(seed)
					reference(want)
					got, err := b.Run(c, c.Inputs(seed))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := Compare(c, got, want); err != nil {
						t.Errorf("%s, seed %d: %v", target, seed, err)
					}
				}
			}
		})
	}
}
