package kernelargs

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/ptx"
)

// Signature describes the parameters of a kernel. It is safe for concurrent use.
type Signature struct {
	params []ptx.Param
	size   int  // of all parameters, packed
	known  bool // otherwise params is empty, and arguments are packed as in C
	seen   []atomic.Pointer[seenType]
	watch  func(param int, buffer string)
}

// seenType is the type of the argument that a parameter got last, and the place of the
// parameter in the bytes. word is the type word of an interface, which identifies the type.
type seenType struct {
	word     uintptr
	at, size int
	class    class
	name     string
	padding  *padding
}

// NewSignature returns the signature of a kernel with these parameters, of size bytes in
// all.
func NewSignature(params []ptx.Param, size int) *Signature {
	return &Signature{params: params, size: size, known: true, seen: make([]atomic.Pointer[seenType], len(params))}
}

// UnknownSignature returns the signature of a kernel whose parameters are not known. Its
// arguments are packed one after the other, each aligned as in C.
func UnknownSignature() *Signature { return &Signature{} }

// Watch lets f be called with the type of a buffer, such as *ferry.Device[float64], that a
// parameter gets when its last argument had another type. It is called before the first use.
func (s *Signature) Watch(f func(param int, buffer string)) { s.watch = f }

// Known reports whether the parameters are known.
func (s *Signature) Known() bool { return s.known }

// Params returns the parameters. It is empty if they are not known. The caller must not
// change it.
func (s *Signature) Params() []ptx.Param { return s.params }

// look checks the type of an argument for parameter i, and caches it.
func (s *Signature) look(i int, arg *any, memory reflect.Type) (*seenType, error) {
	t := typeOf(*arg, memory)
	if err := t.fits(&s.params[i]); err != nil {
		return nil, err
	}
	if s.watch != nil && t.class == classMemory {
		s.watch(i, t.name)
	}
	m := t.at(s.params[i].Offset)
	m.word = typeWord(arg)
	s.seen[i].Store(m)
	return m, nil
}

// at returns the seenType for a parameter at an offset.
func (t *argType) at(offset int) *seenType {
	return &seenType{at: offset, size: t.size, class: t.class, name: t.name, padding: t.padding}
}

// Describe returns a description of the parameter at an offset, for a message.
func (s *Signature) Describe(at int) string {
	for i := range s.params {
		if s.params[i].Offset == at {
			return fmt.Sprintf("parameter %d (%s)", i, paramText(&s.params[i]))
		}
	}
	return fmt.Sprintf("the argument at byte %d", at)
}

// String lists the parameters for a message: ": .u64 n, 8 bytes, ...".
func (s *Signature) String() string {
	var b strings.Builder
	for i := range s.params {
		if i == 0 {
			b.WriteString(": ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(paramText(&s.params[i]))
	}
	return b.String()
}

// paramText returns a description of a parameter for a message: ".u64 n, 8 bytes".
func paramText(p *ptx.Param) string {
	text := refusal.Size(uintptr(p.Size))
	if p.Type == ptx.NoType {
		return text
	}
	return fmt.Sprintf(".%v %s, %s", p.Type, p.Name, text)
}
