// Command gen writes docs/COVERAGE.md: every rule of the suite with what became
// of it on the software GPU and on hardware, from the list of cases and the
// results under docs/results. Run it in the folder of package cutest, or by
// go generate.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/ferrygpu/ferry/cutest"
)

func main() {
	log.SetFlags(0)
	text, err := coverage(filepath.Join("..", "docs"))
	if err == nil {
		err = os.WriteFile(filepath.Join("..", "docs", "COVERAGE.md"), text, 0o644)
	}
	if err != nil {
		log.Fatalf("coverage: %v", err)
	}
}

// coverage is the text of the document for the results under a folder of docs.
func coverage(docs string) ([]byte, error) {
	var runs []*run
	for _, column := range columns {
		r, err := readRun(filepath.Join(docs, "results", column.file))
		if err != nil {
			return nil, err
		}
		r.title = column.title
		runs = append(runs, r)
	}
	p := &page{runs: runs}
	for _, c := range cutest.Cases() {
		p.add(c)
	}
	return p.text(), nil
}
