package permute

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
)

// Reversed is the seed for which the blocks stand in reversed order.
const Reversed = 0

// Blocks returns the PTX of a module with the basic blocks of each function in an order that
// a seed determines, and how many blocks were moved. The functions begin with a branch to
// what was their first block.
func Blocks(ptx string, seed uint64) (permuted string, moved int, err error) {
	var out strings.Builder
	s := &scanner{src: removeComments(ptx)}
	for {
		body := nextBody(s.rest())
		if body < 0 {
			out.WriteString(s.rest())
			return out.String(), moved, nil
		}
		out.WriteString(s.take(body))
		function, err := s.scope()
		if err != nil {
			return "", 0, err
		}
		w := &writer{out: &out, order: rand.New(rand.NewPCG(seed, uint64(s.at))), reverse: seed == Reversed}
		w.body(function)
		moved += w.moved
	}
}

var functionDirective = regexp.MustCompile(`\.(entry|func)\b`)

// nextBody returns where the next body of a function begins, -1 if there is none.
func nextBody(s string) int {
	for at := 0; ; {
		found := functionDirective.FindStringIndex(s[at:])
		if found == nil {
			return -1
		}
		at += found[1]
		end := strings.IndexAny(s[at:], "{;")
		if end < 0 {
			return -1
		}
		if at += end; s[at] == '{' {
			return at
		}
	}
}

// writer writes one function.
type writer struct {
	out     *strings.Builder
	order   *rand.Rand
	reverse bool
	labels  int
	moved   int
}

// label returns a name for a label that the function does not have.
func (w *writer) label() string {
	w.labels++
	return fmt.Sprintf("$permuted_%d", w.labels)
}

func (w *writer) line(text string) { w.out.WriteString("\t" + text + "\n") }

// body writes the body of a function.
func (w *writer) body(s *scope) {
	w.out.WriteString("{\n")
	if w.scope(s, "") {
		w.line("ret;")
	}
	w.out.WriteString("}\n")
}

// scope writes what stands in a scope. The code branches to the label end where it would
// leave the scope at the end; without a label it returns. falls reports whether the text
// ends with code that goes on behind the scope.
func (w *writer) scope(s *scope, end string) (falls bool) {
	for _, it := range s.items {
		if it.decl {
			w.line(it.text)
		}
	}
	blocks := w.blocks(s.items)
	if len(blocks) < 2 {
		for _, b := range blocks {
			w.items(b)
		}
		return true
	}
	w.moved += len(blocks)
	names := make([]string, len(blocks))
	for i := range names {
		names[i] = w.label()
	}
	w.line("bra " + names[0] + ";")
	for _, i := range w.permutation(len(blocks)) {
		w.line(names[i] + ":")
		w.items(blocks[i])
		switch {
		case !fallsThrough(blocks[i]):
		case i+1 < len(blocks):
			w.line("bra " + names[i+1] + ";")
		case end != "":
			w.line("bra " + end + ";")
		default:
			w.line("ret;")
		}
	}
	return false
}

func (w *writer) permutation(n int) []int {
	order := w.order.Perm(n)
	if w.reverse {
		for i := range order {
			order[i] = n - 1 - i
		}
	}
	return order
}

// items writes the items of a block.
func (w *writer) items(items []item) {
	for _, it := range items {
		switch {
		case it.inner == nil:
			w.line(it.text)
		case it.inner.whole():
			w.line(it.inner.text)
		default:
			end := w.label()
			w.line("{")
			w.scope(it.inner, end)
			w.line("}\n\t" + end + ":")
		}
	}
}

// whole reports whether a scope must stay as it is: it has a call with its parameters.
func (s *scope) whole() bool {
	params := false
	for _, it := range s.items {
		if it.label || it.inner != nil && !it.inner.whole() || branches(it.text) {
			return false
		}
		params = params || strings.HasPrefix(it.text, ".param")
	}
	return params
}

// blocks cuts the items of a scope, without the declarations, into blocks.
func (w *writer) blocks(items []item) [][]item {
	var all [][]item
	var block []item
	end := func() {
		if len(block) > 0 {
			all = append(all, w.cut(block)...)
			block = nil
		}
	}
	for _, it := range items {
		if it.decl {
			continue
		}
		if it.label && len(block) > 0 && !block[len(block)-1].label {
			end()
		}
		block = append(block, it)
		if branches(it.text) {
			end()
		}
	}
	end()
	return all
}

var (
	guard    = regexp.MustCompile(`^@!?\S+\s+`)
	branch   = regexp.MustCompile(`^(bra|brx|ret|exit)\b`)
	leaves   = branch // without a guard
	product  = regexp.MustCompile(`^(mul(\.ftz)?(\.sat)?\.b?f|div\.(full|approx))`)
	setsFlag = regexp.MustCompile(`^\w+\S*\.cc\.`)
	getsFlag = regexp.MustCompile(`^(addc|subc|madc)\b`)
)

// operation returns an instruction without its guard.
func operation(text string) string { return guard.ReplaceAllString(text, "") }

// branches reports whether an instruction ends a block.
func branches(text string) bool { return branch.MatchString(operation(text)) }

// fallsThrough reports whether the code goes on behind a block.
func fallsThrough(block []item) bool { return !leaves.MatchString(block[len(block)-1].text) }

// cut cuts a block into blocks of a few items. It does not cut a chain of carries, because
// branches need not keep the flag. It does not cut after a product that a compiler may join
// with an addition behind it, because it may not do so over a branch.
func (w *writer) cut(block []item) [][]item {
	last := 0 // the last instruction that reads the flag
	for i, it := range block {
		if getsFlag.MatchString(operation(it.text)) {
			last = i
		}
	}
	var all [][]item
	begin, flag := 0, false
	for i, it := range block {
		if i > begin && !it.label && !block[i-1].label && !(flag && i <= last) && w.order.IntN(3) == 0 {
			all = append(all, block[begin:i])
			begin = i
		}
		op := operation(it.text)
		flag = flag || setsFlag.MatchString(op)
		if product.MatchString(op) {
			break
		}
	}
	return append(all, block[begin:])
}
