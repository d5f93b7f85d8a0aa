package ptx

import "strconv"

// names is a set of declared names: single names, and ranges such as %r<7>, for which
// it holds the prefix only. The zero value is empty.
type names struct {
	single map[string]*Var
	ranges map[string]*Var // by prefix
	stems  map[string]stem // single names that end in a number, by the part before the number
}

// stem is the lowest number after a prefix among the single names.
type stem struct {
	lowest int
	v      *Var
}

// maxRange is the highest number in a range. It fits an int on every platform.
const maxRange = 1<<31 - 1

// find returns the variable of that name; index is its number if it belongs to a
// range.
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

// rangeOf returns the range whose prefix fits the name, whether or not the number is
// in the range.
func (n *names) rangeOf(name string) (prefix string, v *Var) {
	for i := digitsStart(name); i < len(name); i++ {
		if v, ok := n.ranges[name[:i]]; ok && rangeNumber(name[i:]) >= 0 {
			return name[:i], v
		}
	}
	return "", nil
}

// conflict returns a variable that collides with a declaration of name, or of the
// range name<count> if count is not 0.
func (n *names) conflict(name string, count int) *Var {
	if count == 0 {
		v, _ := n.find(name)
		return v
	}
	if s, ok := n.stems[name]; ok && s.lowest < count {
		return s.v
	}
	// The first member is checked below. The others can only collide with a name that
	// has a longer prefix, which is also in stems, or with a range that has the first.
	v, _ := n.find(name + "0")
	if v == nil {
		v = n.shorter(name)
	}
	return v
}

// taken reports whether a single variable or a range has that name. a and a<4> do not
// collide, but each needs a name of its own.
func (n *names) taken(name string) bool { return n.single[name] != nil || n.ranges[name] != nil }

// shorter returns a range that shares members with a range of a longer prefix:
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

// add records a variable, or a range if count is not 0.
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

// put stores into a map, which it creates if necessary.
func put[K comparable, V any](m *map[K]V, key K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[key] = v
}

// digitsStart returns where the number at the end of a name may start. A number has
// at most ten digits.
func digitsStart(name string) int {
	i := len(name)
	for i > 1 && len(name)-i < 10 && name[i-1] >= '0' && name[i-1] <= '9' {
		i--
	}
	return i
}

// rangeNumber returns the number of a member of a range, which has no leading zeros.
// It returns -1 for other texts.
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
