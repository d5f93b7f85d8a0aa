package convert

import (
	"fmt"
	"strings"
)

// Kind is how a tensor's numbers are stored. The zero Kind is none.
type Kind uint8

// Floats, little-endian. E4M3 has no infinity (float8_e4m3fn of PyTorch), E5M2 has one.
const (
	F32 Kind = 1 + iota
	F16
	BF16
	E4M3
	E5M2

	lastFloat = E5M2
)

// Blocks of GGUF, which convert to floats of 16 and 32 bits.
const (
	Q4_0 = 1 + lastFloat + iota
	Q8_0
	Q4_K
	Q6_K

	lastKind = Q6_K
)

// info is what the kernels need to know of a kind.
type info struct {
	name         string
	block, bytes int // the numbers of a block, and its bytes
}

var infos = [1 + lastKind]info{
	F32:  {"F32", 1, 4},
	F16:  {"F16", 1, 2},
	BF16: {"BF16", 1, 2},
	E4M3: {"F8_E4M3", 1, 1},
	E5M2: {"F8_E5M2", 1, 1},
	Q4_0: {"Q4_0", 32, 18},
	Q8_0: {"Q8_0", 32, 34},
	Q4_K: {"Q4_K", 256, 144},
	Q6_K: {"Q6_K", 256, 210},
}

// info returns what is known of a kind, with a block of 0 for one that does not exist.
func (k Kind) info() info {
	if k > lastKind {
		return info{}
	}
	return infos[k]
}

// String returns the name that files use: "BF16".
func (k Kind) String() string {
	if i := k.info(); i.block > 0 {
		return i.name
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Block returns how many numbers a block has, and its bytes. A float is a block of one. Both are 0
// for a kind that does not exist.
func (k Kind) Block() (numbers, bytes int) {
	i := k.info()
	return i.block, i.bytes
}

// Supported reports whether a kernel converts from one kind to another.
func Supported(from, to Kind) bool {
	a, b := from.info(), to.info()
	return from != to && a.block > 0 && b.block == 1 && (a.block == 1 || b.bytes > 1)
}

// What convert.cu has under the same names: threads of a block, and numbers that they convert at a
// time.
const (
	threads = 256
	tile    = 4096
)

// kernel returns the name of the kernel: "bf16_f16".
func (p Pair) kernel() string {
	return strings.ToLower(strings.ReplaceAll(p.From.String()+"_"+p.To.String(), "F8_", ""))
}

// Pairs returns all pairs that a kernel converts.
func Pairs() (pairs []Pair) {
	for from := range 1 + lastKind {
		for to := range 1 + lastKind {
			if Supported(from, to) {
				pairs = append(pairs, Pair{from, to})
			}
		}
	}
	return pairs
}
