package rendezvous

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestManyGPUsPage: docs/many-gpus.md has the launchers in the order in which they win, each with its
// variables, and examples that set what is needed.
func TestManyGPUsPage(t *testing.T) {
	data, err := os.ReadFile("../../../docs/many-gpus.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	checkTable(t, section(t, page, "## Which variables win"))
	for _, name := range []string{"### torchrun", "### mpirun", "### srun", "### Kubernetes"} {
		if !strings.Contains(blocks(section(t, page, name)), "FERRY_NCCL_TOKEN") {
			t.Errorf("the example of %s sets no token", name)
		}
	}
	checkShells(t, page)
	job := section(t, page, "### Kubernetes")
	for _, index := range []string{"0", "1"} {
		w, err := FromEnvironment(variables("JOB_COMPLETION_INDEX=" + index + " " + jobVariables(job)))
		if err != nil || w.Size != 2 || w.Addr != "allreduce-0.allreduce:29501" || w.From != "Kubernetes" {
			t.Errorf("pod %s of the Job: %+v, %v", index, w, err)
		}
	}
}

// section returns the text below a heading, up to the next.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, text, ok := strings.Cut(page, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("the page has no heading %q", heading)
	}
	if next := regexp.MustCompile(`(?m)^##+ `).FindStringIndex(text); next != nil {
		text = text[:next[0]]
	}
	return text
}

// blocks returns what is in the blocks of code of a text.
func blocks(text string) string {
	var all strings.Builder
	for i, part := range strings.Split(text, "```") {
		if i%2 == 1 {
			all.WriteString(part)
		}
	}
	return all.String()
}

// checkTable compares the first table of a text with the launchers.
func checkTable(t *testing.T, text string) {
	t.Helper()
	name := regexp.MustCompile("`([A-Z_]+)`")
	var rows [][]string
	for line := range strings.Lines(text) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && strings.Contains(line, "`") {
			var row []string
			for _, m := range name.FindAllStringSubmatch(strings.Join(cells[2:], " "), -1) {
				row = append(row, m[1])
			}
			rows = append(rows, row)
		}
	}
	var want [][]string
	for _, l := range launchers {
		want = append(want, append(append([]string{l.rank, l.size}, l.local...), localRank))
	}
	if !slices.EqualFunc(rows, want, slices.Equal) {
		t.Errorf("the table has\n%q, want\n%q", rows, want)
	}
	for _, l := range launchers {
		if l.localSize != "" && !strings.Contains(text, "`"+l.localSize+"`") {
			t.Errorf("the page does not say what %s means", l.localSize)
		}
	}
}

// checkShells gives what the examples export to FromEnvironment, with what each launcher adds.
func checkShells(t *testing.T, page string) {
	t.Helper()
	export := regexp.MustCompile(`(MASTER_ADDR|MASTER_PORT|FERRY_NCCL_TOKEN)=("[^\n]*?"(?: |\n)|[^ \n]+)`)
	for heading, adds := range map[string][]string{"### mpirun": {openMPI, hydra}, "### srun": {slurm}} {
		env := ""
		for _, m := range export.FindAllStringSubmatch(blocks(section(t, page, heading)), -1) {
			value := strings.TrimSpace(m[2])
			if strings.HasPrefix(value, `"$(`) {
				value = "computed"
			}
			env += " " + m[1] + "=" + value
		}
		for _, add := range adds {
			if w, err := FromEnvironment(variables(add + env)); err != nil || !strings.HasSuffix(w.Addr, ":29501") {
				t.Errorf("%s with %s%s: %+v, %v", heading, add, env, w, err)
			}
			if variables(env)("FERRY_NCCL_TOKEN") == "" {
				t.Errorf("%s: %q has no token", heading, env)
			}
		}
	}
	for _, word := range []string{"--no-python", "--master-addr", "--master-port", "--nnodes"} {
		if !strings.Contains(section(t, page, "### torchrun"), word) {
			t.Errorf("the example of torchrun has no %s", word)
		}
	}
}

// jobVariables returns the variables that a Job sets to values, as words.
func jobVariables(text string) (words string) {
	for _, m := range regexp.MustCompile(`\{name: (\w+), value: "?([^"}]*)"?\}`).FindAllStringSubmatch(text, -1) {
		words += m[1] + "=" + m[2] + " "
	}
	return words
}
