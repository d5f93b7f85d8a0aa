package convert

import (
	_ "embed"
	"strings"
)

//go:embed convert.ptx
var ptx string

// image returns a module that has only the kernels with these names.
func image(names []string) []byte {
	head, kernels := split(ptx)
	var b strings.Builder
	b.WriteString(head)
	for _, name := range names {
		b.WriteString(kernels[name])
	}
	return []byte(b.String())
}

// split cuts a module into what stands before the first kernel, and the kernels by name. Nothing
// stands between them: the kernels use no functions and variables of the module.
func split(ptx string) (head string, kernels map[string]string) {
	const begin = "\n.visible .entry "
	parts := strings.Split(ptx, begin)
	kernels = make(map[string]string)
	for _, p := range parts[1:] {
		name, _, _ := strings.Cut(p, "(")
		kernels[name] = begin + p
	}
	return parts[0] + "\n", kernels
}
