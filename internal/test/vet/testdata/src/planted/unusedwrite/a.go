package unusedwrite

type pair struct{ a, b int }

func sum(all []pair) (n int) {
	for _, p := range all {
		p.b = 1 // want "unused write to field b"
		n += p.a
	}
	return n
}
