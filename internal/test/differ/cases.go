package differ

import "slices"

// Cases is the table of cases, by family.
var Cases = slices.Concat(
	reduceCases, scanCases, transposeCases, histogramCases, sortCases, stencilCases, matrixCases,
	hashCases, randomCases, textCases, linkCases, warpCases, divergeCases, lockCases,
	bigCases, integerCases, mathCases, halfCases, memoryCases, copyCases, atomicCases, printCases,
	tensorCases, fusedCases,
)

// Families returns the families of the table, in its order.
func Families() []string {
	var all []string
	for i := range Cases {
		if !slices.Contains(all, Cases[i].Family) {
			all = append(all, Cases[i].Family)
		}
	}
	return all
}

// CasesOf returns the cases of a family.
func CasesOf(family string) []*Case {
	var all []*Case
	for i := range Cases {
		if Cases[i].Family == family {
			all = append(all, &Cases[i])
		}
	}
	return all
}
