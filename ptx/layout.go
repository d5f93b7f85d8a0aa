package ptx

// Param is one parameter within the packed parameter buffer of a kernel.
type Param struct {
	Offset int // bytes from the start of the buffer
	Size   int // bytes, of the whole array for an array
	Align  int // bytes
	Type   Type
	Name   string
}

// ParamLayout places the parameters as a launch packs them: in order, each at the
// next multiple of its alignment. The total is the buffer's size, without padding
// behind the last parameter.
func (f *Func) ParamLayout() (params []Param, total int) {
	params = make([]Param, 0, len(f.Params))
	for _, v := range f.Params {
		align := max(v.Align, 1)
		offset := (total + align - 1) / align * align
		params = append(params, Param{Offset: offset, Size: v.Size(), Align: align, Type: v.Type, Name: v.Name})
		total = offset + v.Size()
	}
	return params, total
}

// Lookup finds a parameter, result or variable of the function by a name as an
// operand has it. For a register of a range (%r5 of %r<7>) index is its number,
// else 0. It is nil if there is none of that name.
func (f *Func) Lookup(name string) (v *Var, index int) { return f.names.find(name) }

// Size in bytes: of the whole array, of one register for a range of registers.
// It is 0 when an extent was left open.
func (v *Var) Size() int {
	n := v.elementSize()
	for _, d := range v.Dims {
		n *= max(d, 0)
	}
	return n
}

// elementSize is that of one element of an array, the whole vector for a vector.
func (v *Var) elementSize() int { return v.Type.Size() * max(v.Vec, 1) }
