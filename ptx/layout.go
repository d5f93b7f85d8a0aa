package ptx

// Param is one parameter in the packed parameter buffer of a kernel.
type Param struct {
	Offset int // bytes from the start of the buffer
	Size   int // bytes, of the whole array for an array
	Align  int // bytes
	Type   Type
	Name   string
}

// ParamLayout returns the parameters as a launch packs them: in order, each at the next
// multiple of its alignment. total is the size of the buffer in bytes. It has no padding
// after the last parameter.
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

// Lookup finds a parameter, result or variable of the function by its name in an operand.
// If the name is a register of a range (%r5 of %r<7>), index is its number (5). Otherwise
// index is 0. If there is no such name, v is nil.
func (f *Func) Lookup(name string) (v *Var, index int) { return f.names.find(name) }

// Size returns the size in bytes: of the whole array, or of one register of a range.
// It is 0 for an array that is declared without an extent.
func (v *Var) Size() int {
	n := v.elementSize()
	for _, d := range v.Dims {
		n *= max(d, 0)
	}
	return n
}

// elementSize returns the size of one element of an array. An element may be a
// vector.
func (v *Var) elementSize() int { return v.Type.Size() * max(v.Vec, 1) }
