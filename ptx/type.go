package ptx

// typeTable has for each type the text after the dot in PTX and the size in bytes.
var typeTable = [...]struct {
	name string
	size int
}{
	NoType: {"", 0},
	U8:     {"u8", 1}, U16: {"u16", 2}, U32: {"u32", 4}, U64: {"u64", 8},
	S8: {"s8", 1}, S16: {"s16", 2}, S32: {"s32", 4}, S64: {"s64", 8},
	B8: {"b8", 1}, B16: {"b16", 2}, B32: {"b32", 4}, B64: {"b64", 8}, B128: {"b128", 16},
	F16: {"f16", 2}, F16x2: {"f16x2", 4}, BF16: {"bf16", 2}, BF16x2: {"bf16x2", 4},
	F32: {"f32", 4}, F64: {"f64", 8},
	Pred:   {"pred", 1},
	TexRef: {"texref", 8}, SamplerRef: {"samplerref", 8}, SurfRef: {"surfref", 8},
}

var typesByName = func() map[string]Type {
	m := make(map[string]Type, len(typeTable))
	for t := U8; int(t) < len(typeTable); t++ {
		m[typeTable[t].name] = t
	}
	return m
}()

// ParseType returns the type with that name, written without a dot: "f32". It reports
// false for other words, so a caller can ask whether a modifier of an [Instr] is a type.
func ParseType(name string) (Type, bool) {
	t, ok := typesByName[name]
	return t, ok
}

// String returns the type as PTX writes it, without the dot: "f32". It is empty for
// [NoType].
func (t Type) String() string {
	if int(t) < len(typeTable) {
		return typeTable[t].name
	}
	return "unknown"
}

// Size returns the size in bytes. A predicate counts as 1, an opaque reference as 8.
func (t Type) Size() int {
	if int(t) < len(typeTable) {
		return typeTable[t].size
	}
	return 0
}

// IsFloat reports whether values of the type are floating-point numbers, single or
// packed.
func (t Type) IsFloat() bool { return t >= F16 && t <= F64 }

// IsSigned reports whether values of the type are signed integers.
func (t Type) IsSigned() bool { return t >= S8 && t <= S64 }

// isOpaque reports whether the type is a texture, sampler or surface reference.
func (t Type) isOpaque() bool { return t >= TexRef }

var spaceNames = [...]string{
	Generic: "generic", RegSpace: "reg", ParamSpace: "param", GlobalSpace: "global",
	ConstSpace: "const", SharedSpace: "shared", LocalSpace: "local",
}

// String returns the state space as PTX writes it, without the dot: "global".
func (s Space) String() string {
	if int(s) < len(spaceNames) {
		return spaceNames[s]
	}
	return "unknown"
}

// spaceOf returns the state space for the first directive of a declaration; ok is
// false for other directives.
func spaceOf(name string) (space Space, ok bool) {
	switch name {
	case "reg":
		return RegSpace, true
	case "param":
		return ParamSpace, true
	case "global", "tex", "surf":
		return GlobalSpace, true
	case "const":
		return ConstSpace, true
	case "shared":
		return SharedSpace, true
	case "local":
		return LocalSpace, true
	}
	return Generic, false
}

var linkageNames = [...]string{Local: "", Visible: "visible", Weak: "weak", Extern: "extern", Common: "common"}

// String returns the linkage directive without its dot, "" for [Local].
func (l Linkage) String() string {
	if int(l) < len(linkageNames) {
		return linkageNames[l]
	}
	return "unknown"
}

func linkageOf(name string) (Linkage, bool) {
	for l, n := range linkageNames {
		if n == name && n != "" {
			return Linkage(l), true
		}
	}
	return Local, false
}
