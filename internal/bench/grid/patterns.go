package grid

import "slices"

// family is a group of kinds whose times depend on the same things.
type family struct {
	name  string
	kinds []kind
}

// families are the families of the set [Patterns], in the order of the table.
var families = []family{
	{"access patterns", accessKinds},
	{"few threads", threadKinds},
	{"chains of loads", chaseKinds},
	{"gathers and scatters", gatherKinds},
	{"atomics", atomicKinds},
	{"arithmetic", arithmeticKinds},
	{"copies of rows", rowKinds},
	{"order", orderKinds},
	{"graphs", graphKinds},
	{"sharing the link", besideKinds},
	{"managed memory", adviceKinds},
	{"memory that the CPU uses", cpuKinds},
}

// patterns are the kinds of all families.
var patterns = func() (all []kind) {
	for _, f := range families {
		all = append(all, f.kinds...)
	}
	return all
}()

// Family returns the name of a case's family, or "" for a single operation.
func (c Case) Family() string {
	for _, f := range families {
		if slices.ContainsFunc(f.kinds, func(k kind) bool { return k.name == c.Kind }) {
			return f.name
		}
	}
	return ""
}

// HeldOut reports whether a pattern is held out: nobody looks at its error alone, and no
// number of a profile or of the software GPU is chosen by it. Half of the patterns are,
// chosen by a hash of their names as in [Case.Test]. Those that were measured before the
// set existed are not ([Known]).
func (c Case) HeldOut() bool {
	return c.Test() && c.Family() != "" && !slices.ContainsFunc(knownCases, func(k knownCase) bool { return k.Case == c })
}

// Fits reports whether profiles may be fitted to a case.
func (c Case) Fits() bool {
	if c.Family() == "" {
		return !c.Test()
	}
	return !c.HeldOut()
}
