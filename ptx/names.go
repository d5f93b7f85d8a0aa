package ptx

import "strconv"

// names is a set of declared names: single ones, and ranges such as %r<7>, of
// which only the prefix is held. The zero value is empty.
type names struct {
	single map[string]*Var
	ranges map[string]*Var // by prefix
	stems  map[string]stem // of single names that end in a number, by what stands before it
}

// stem is the lowest number behind a prefix among the single names.
type stem struct {
	lowest int
	v      *Var
}

// maxRange bounds the numbers of a range, so that they fit an int everywhere.
const maxRange = 1<<31 - 1

// find is the variable of that name; index is its number if it belongs to a range.
func (n *names) find(name string) (v *Var, index int) {
	if v, ok := n.single[name]; ok {
		return v, 0
	}
	if len(n.ranges) == 0 {
		return nil, 0
	}
	for i := digitsStart(name); i < len(name); i++ {
		if v, ok := n.ranges[name[:i]]; ok {
			if k := rangeNumber(name[i:]); k >= 0 && k < v.Count {
				return v, k
			}
		}
	}
	return nil, 0
}

// rangeOf is the range whose prefix fits the name, within its count or not.
func (n *names) rangeOf(name string) (prefix string, v *Var) {
	for i := digitsStart(name); i < len(name); i++ {
		if v, ok := n.ranges[name[:i]]; ok && rangeNumber(name[i:]) >= 0 {
			return name[:i], v
		}
	}
	return "", nil
}

// conflict is a variable that a declaration of name, or of the range name<count>
// where count is not 0, would collide with.
func (n *names) conflict(name string, count int) *Var {
	if count == 0 {
		v, _ := n.find(name)
		return v
	}
	if s, ok := n.stems[name]; ok && s.lowest < count {
		return s.v
	}
	// All members but the first can only collide where a longer prefix starts, which
	// the stems hold too, or with a range that has the first member.
	v, _ := n.find(name + "0")
	if v == nil {
		v = n.shorter(name)
	}
	return v
}

// taken says that a single variable or a range is called so: a and a<4> do not
// collide, and yet want two names.
func (n *names) taken(name string) bool { return n.single[name] != nil || n.ranges[name] != nil }

// shorter is a range that has members in common with those of a longer prefix:
// %r<200> has %r10, which is also the first of %r1<5>.
func (n *names) shorter(name string) *Var {
	for i := digitsStart(name); i < len(name); i++ {
		v, ok := n.ranges[name[:i]]
		if k := rangeNumber(name[i:]); ok && k > 0 && k*10 < v.Count {
			return v
		}
	}
	return nil
}

// add records a variable, a range where count is not 0.
func (n *names) add(name string, count int, v *Var) {
	first := name
	if count != 0 {
		put(&n.ranges, name, v)
		first = name + "0"
	} else {
		put(&n.single, name, v)
	}
	for i := digitsStart(first); i < len(first); i++ {
		k := rangeNumber(first[i:])
		if k < 0 {
			continue
		}
		if s, ok := n.stems[first[:i]]; !ok || k < s.lowest {
			put(&n.stems, first[:i], stem{k, v})
		}
	}
}

// put stores into a map that may not exist yet.
func put[K comparable, V any](m *map[K]V, key K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[key] = v
}

// digitsStart is where the number at the end of a name may start; a number has at most ten digits.
func digitsStart(name string) int {
	i := len(name)
	for i > 1 && len(name)-i < 10 && name[i-1] >= '0' && name[i-1] <= '9' {
		i--
	}
	return i
}

// rangeNumber reads the number of a member of a range: no leading zeros. It is -1 for others.
func rangeNumber(digits string) int {
	if digits[0] == '0' && len(digits) > 1 {
		return -1
	}
	k, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return -1
	}
	return int(k)
}
