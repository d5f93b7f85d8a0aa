package checkpoint

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/ferrygpu/ferry/checkpoint/internal/scan"
)

const (
	maxHeader = 100_000_000 // bytes of a header, as in the library of safetensors
	maxRank   = 64          // dimensions of a tensor, as in PyTorch and NumPy
)

// readSafetensors reads the header of a safetensors file: 8 bytes with the length of a JSON
// document, and that. The bytes of the tensors follow, without gaps.
func readSafetensors(f *file) (*header, error) {
	if f.size < 8 {
		return nil, f.faultf("", 0, "the file has %d bytes, too few for a header of safetensors", f.size)
	}
	var length [8]byte
	if err := scan.NewReader(f.src, 0, 8).Fill(length[:]); err != nil {
		return nil, f.fault("", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	switch {
	case n > maxHeader:
		return nil, f.faultf("", 0, "the header has %d bytes, more than %d, the most that safetensors allows: is this a file of another format?", n, maxHeader)
	case n > uint64(f.size-8):
		return nil, f.faultf("", 0, "the header has %d bytes, but only %d follow in the file", n, f.size-8)
	}
	p := &safetensors{f: f, j: scan.JSON{Reader: scan.NewReader(f.src, 8, 8+int64(n))}, data: 8 + int64(n)}
	p.header.metadata = map[string]any{}
	p.takeField = p.field
	if err := p.document(); err != nil {
		return nil, f.fault("", err)
	}
	return &p.header, p.layout()
}

// safetensors is a parser of one header.
type safetensors struct {
	header
	f    *file
	j    scan.JSON
	data int64 // offset in the file of the byte after the header

	now    Info     // the tensor that is being read
	ends   [2]int64 // its data_offsets
	n      int      // how many of them; -1 without the field
	dims   [maxRank]int64
	shapes []int64 // memory for the shapes of tensors

	takeField func(string, int64) error // field, which is bound once
}

func (p *safetensors) document() error {
	b, err := p.j.Peek()
	if at, ok := errors.AsType[*scan.Error](err); ok && at.Err != nil {
		return err // of the reader
	}
	if err != nil || b != '{' {
		return p.f.faultf("", 8, "the header does not begin with '{': is this a file of another format?")
	}
	err = p.j.Object(func(name string, at int64) error {
		if name == metadataName {
			return p.f.fault("", p.strings())
		}
		return p.f.fault(name, p.tensor(name, at))
	})
	if err != nil {
		return p.f.faultOfNames(err)
	}
	return p.j.End()
}

// strings takes the metadata: an object of strings, or null.
func (p *safetensors) strings() error {
	if null, err := p.j.Null(); null || err != nil {
		return err
	}
	return p.j.Object(func(name string, _ int64) error {
		value, err := p.j.String()
		p.metadata[name] = value
		return err
	})
}

// tensor takes the object that describes a tensor.
func (p *safetensors) tensor(name string, at int64) error {
	if err := checkName(name, at); err != nil {
		return err
	}
	p.now, p.n = Info{Name: name, File: p.f.name, file: p.f}, -1
	err := p.j.Object(p.takeField)
	switch t := &p.now; {
	case err != nil:
		return err
	case t.DType == NoDType || t.Shape == nil || p.n < 0:
		return scan.ErrorAt(at, "it needs the fields dtype, shape and data_offsets, and lacks one")
	}
	return p.place(&p.now, p.ends[:p.n], at)
}

// field takes a field of the object of a tensor. Fields that it does not know may be of later versions.
func (p *safetensors) field(field string, _ int64) (err error) {
	switch field {
	case "dtype":
		p.now.DType, err = p.dtype()
	case "shape":
		err = p.shape()
	case "data_offsets":
		p.n, err = p.numbers(2, func(i int, n int64) { p.ends[i] = n })
	default:
		err = p.j.Skip()
	}
	return err
}

// shape takes the shape of a tensor. Those of many tensors are parts of one piece of memory.
func (p *safetensors) shape() error {
	const most = 4 << 10
	n, err := p.numbers(maxRank, func(i int, n int64) { p.dims[i] = n })
	if err != nil {
		return err
	}
	if cap(p.shapes)-len(p.shapes) < n || p.shapes == nil {
		p.shapes = make([]int64, 0, max(min(2*cap(p.shapes), most), maxRank))
	}
	from := len(p.shapes)
	p.shapes = append(p.shapes, p.dims[:n]...)
	p.now.Shape = p.shapes[from:len(p.shapes):len(p.shapes)]
	return nil
}

func (p *safetensors) dtype() (DType, error) {
	at := p.j.Offset()
	name, err := p.j.String()
	if err != nil {
		return NoDType, err
	}
	d, ok := safetensorsTypes[name]
	if !ok {
		return NoDType, scan.ErrorAt(at, "%v", unknownType(name, safetensorsTypes))
	}
	return d, nil
}

// numbers takes a list of at most most whole numbers, and calls take for each. It returns how many there
// are.
func (p *safetensors) numbers(most int, take func(i int, n int64)) (count int, err error) {
	err = p.j.Array(func() error {
		if count == most {
			return p.j.Errorf("a list of more than %d numbers", most)
		}
		n, err := p.j.Uint()
		if err == nil {
			take(count, n)
			count++
		}
		return err
	})
	return count, err
}

// place checks where the bytes of a tensor are, and adds it.
func (p *safetensors) place(t *Info, ends []int64, at int64) error {
	if len(ends) != 2 {
		return scan.ErrorAt(at, "data_offsets has %d numbers, want 2", len(ends))
	}
	n, ok := count(t.Shape)
	bytes, fits := t.DType.size(n)
	left := p.f.size - p.data
	switch {
	case !ok:
		return scan.ErrorAt(at, "the product of its shape %v overflows", t.Shape)
	case !fits:
		return scan.ErrorAt(at, "%d elements of %v are no whole number of bytes, or more than 2^63", n, t.DType)
	case ends[1] < ends[0]:
		return scan.ErrorAt(at, "its bytes end at %d, before they begin at %d", ends[1], ends[0])
	case ends[1]-ends[0] != bytes:
		return scan.ErrorAt(at, "%v %v has %d bytes, but its offsets %d to %d are %d", t.DType, t.Shape, bytes, ends[0], ends[1], ends[1]-ends[0])
	case ends[1] > left:
		return scan.ErrorAt(at, "its bytes %d to %d end behind the file, which has %d after the header", ends[0], ends[1], left)
	}
	t.Offset, t.Bytes = p.data+ends[0], bytes
	if len(p.tensors) == cap(p.tensors) {
		p.tensors = slices.Grow(p.tensors, p.more())
	}
	p.tensors = append(p.tensors, *t)
	return nil
}

// more returns for how many further tensors memory is taken: as many as the rest of the header has if
// they are like those before, but at most seven times as many as these.
func (p *safetensors) more() int {
	have := int64(len(p.tensors))
	read := p.j.Offset() - 8
	return int(min(max(have*p.j.Left()/max(read, 1)+have/16, 8), 7*have+8))
}

// layout demands what the format demands: the tensors share no bytes, and leave none out.
func (p *safetensors) layout() error {
	if err := p.sorted(p.f); err != nil {
		return err
	}
	end := p.data
	for i := range p.tensors {
		t := &p.tensors[i]
		if t.Offset != end {
			return p.f.faultf(t.Name, end, "no tensor has the %d bytes before it: safetensors allows no gaps", t.Offset-end)
		}
		end += t.Bytes
	}
	if end != p.f.size {
		return p.f.faultf("", end, "no tensor has the last %d bytes of the file: safetensors allows no gaps", p.f.size-end)
	}
	return nil
}
