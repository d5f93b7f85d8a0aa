package grid

import "slices"

// family is a group of kinds whose times depend on the same things.
type family struct {
	name  string
	kinds []kind
	// marked says why predictions of the family are not to be relied on; "" if they are.
	// Every output that prints such a prediction says it.
	marked string
}

// families are the families of the set [Patterns], in the order of the table.
var families = []family{
	{name: "access patterns", kinds: accessKinds},
	{name: "few threads", kinds: threadKinds},
	{name: "chains of loads", kinds: chaseKinds},
	{name: "gathers and scatters", kinds: gatherKinds},
	{name: "atomics", kinds: atomicKinds},
	{name: "arithmetic", kinds: arithmeticKinds},
	{name: "copies of rows", kinds: rowKinds},
	{name: "order", kinds: orderKinds},
	{name: "graphs", kinds: graphKinds},
	{name: "sharing the link", kinds: besideKinds},
	{name: "managed memory", kinds: adviceKinds,
		marked: "machines differ by up to 2x, and faults depend on which warps run at once"},
	{name: "memory that the CPU uses", kinds: cpuKinds,
		marked: "calls tell bytes, not instructions, and writes take no time"},
}

// patterns are the kinds of all families.
var patterns = func() (all []kind) {
	for _, f := range families {
		all = append(all, f.kinds...)
	}
	return all
}()

// Marked returns why predictions of a case are not to be relied on, or "".
func (c Case) Marked() string {
	for _, f := range families {
		if f.name == c.Family() {
			return f.marked
		}
	}
	return ""
}

// markedFamilies returns the families that are marked, with the reasons.
func markedFamilies() map[string]string {
	out := map[string]string{}
	for _, f := range families {
		if f.marked != "" {
			out[f.name] = f.marked
		}
	}
	return out
}

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
