package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const fromPath = "docs/from.md"

var (
	// ferryName finds a name of Ferry in a code span: its package, if it names one, an exported
	// name, and a method or field. Arguments may follow.
	ferryName = regexp.MustCompile(`^(?:(ferry|pipeline|dlpack|cu)\.)?([A-Z]\w*)(?:\.([A-Z]\w*))?(?:\(.*\))?$`)
	// besidePair finds figures of Ferry and of a peer.
	besidePair = regexp.MustCompile(`(\d[\d.]* \S+) beside (\d[\d.]* \S+?)[,;.]?(?:\s|$)`)
	goBlock    = regexp.MustCompile("(?s)```go\n(.*?)```")
	// usedPackage finds the packages that a block of code uses.
	usedPackage = regexp.MustCompile(`\b(context|errors|slices|ferry|pipeline|cu)\.[A-Z]`)
)

// TestFromNames: the tables for those who come from other libraries, and the table of package
// ferry, have names that exist.
func TestFromNames(t *testing.T) {
	root, text := readDocument(t, fromPath)
	names := publicNames(t, root)
	faults, checked := fromFaults(text, names)
	for _, fault := range faults {
		t.Error(fault)
	}
	if checked < 250 {
		t.Errorf("checked %d names of %s, want at least 250", checked, fromPath)
	}
	_, doc := readDocument(t, "doc.go")
	faults, checked = counterpartFaults(doc, names)
	for _, fault := range faults {
		t.Error(fault)
	}
	if checked < 80 {
		t.Errorf("checked %d names of doc.go, want at least 80", checked)
	}
}

// publicNames returns what packages ferry, pipeline, dlpack and cu export: names such as "Copy",
// "Stream.Wait", "HostOptions.Mapped" and "cu.StreamPerThread".
func publicNames(t *testing.T, root string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for dir, prefix := range map[string]string{".": "", "pipeline": "pipeline.", "dlpack": "dlpack.", "cu": "cu."} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				addNames(names, prefix, d)
			}
		}
	}
	return names
}

// addNames adds the names that a declaration makes.
func addNames(names map[string]bool, prefix string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names[prefix+d.Name.Name] = true
		} else {
			names[prefix+receiverName(d.Recv.List[0].Type)+"."+d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names[prefix+n.Name] = true
				}
			case *ast.TypeSpec:
				names[prefix+s.Name.Name] = true
				for _, n := range memberNames(s.Type) {
					names[prefix+s.Name.Name+"."+n] = true
				}
			}
		}
	}
}

// receiverName returns the name of the type of a method.
func receiverName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiverName(x.X)
	case *ast.IndexExpr:
		return receiverName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// memberNames returns the names of a struct's fields or an interface's methods.
func memberNames(x ast.Expr) (names []string) {
	var fields *ast.FieldList
	switch x := x.(type) {
	case *ast.StructType:
		fields = x.Fields
	case *ast.InterfaceType:
		fields = x.Methods
	default:
		return nil
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// fromFaults returns the names in the tables that do not exist. What stands under "Ferry" must
// be names of Ferry, and so must capital names outside the sections of other libraries. Elsewhere
// those with a package, and methods of Ferry's types, are checked.
func fromFaults(text string, names map[string]bool) (faults []string, checked int) {
	table, ours := false, true
	for line := range strings.Lines(withoutCode(text)) {
		if strings.HasPrefix(line, "#") {
			ours = !strings.HasPrefix(line, "## From ")
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			table = false
			cells = []string{"", "", line}
		case len(cells) > 2 && strings.TrimSpace(cells[1]) == "Ferry":
			table = true
			continue
		case !table:
			continue
		case len(cells) < 2:
			continue // the line below the header
		}
		for i, cell := range cells[1:] {
			for _, span := range codeSpan.FindAllString(cell, -1) {
				name, ofFerry := nameIn(strings.Trim(span, "`"), names)
				ofFerry = ofFerry || ours && name != ""
				switch {
				case table && i == 0 && !ofFerry:
					faults = append(faults, fmt.Sprintf("%s is no name of Ferry: %s", span, strings.TrimSpace(line)))
				case ofFerry && !names[name]:
					faults = append(faults, fmt.Sprintf("%s does not exist: %s", span, strings.TrimSpace(line)))
				case ofFerry:
					checked++
				}
			}
		}
	}
	return faults, checked
}

// nameIn returns the name in a code span as publicNames has it. ofFerry is true if the span has a
// package of Ferry, or begins with a name of Ferry.
func nameIn(span string, names map[string]bool) (name string, ofFerry bool) {
	m := ferryName.FindStringSubmatch(span)
	if m == nil {
		return "", false
	}
	first := m[2]
	if m[1] != "" && m[1] != "ferry" {
		first = m[1] + "." + first
	}
	name = first
	if m[3] != "" {
		name += "." + m[3]
	}
	return name, m[1] != "" || names[first]
}

// counterpartFaults returns the names in the table of package ferry that do not exist.
func counterpartFaults(doc string, names map[string]bool) (faults []string, checked int) {
	_, doc, _ = strings.Cut(doc, "// # CUDA functions and their counterparts\n")
	doc, _, _ = strings.Cut(doc, "\n// # ")
	for line := range strings.Lines(doc) {
		row, ok := strings.CutPrefix(line, "//\t")
		i := strings.LastIndex(row, "  ")
		if !ok || i < 0 {
			continue // text, or the first half of a row
		}
		cell := strings.TrimSpace(row[i:])
		for name := range strings.FieldsFuncSeq(cell, func(r rune) bool { return r == ',' || r == ':' || r == ' ' }) {
			switch {
			case strings.HasPrefix(cell, "package "):
			case !names[name] && !names["Host."+name]: // a method of all memory, such as Close
				faults = append(faults, fmt.Sprintf("doc.go: %s does not exist: %s", name, strings.TrimSpace(row)))
			default:
				checked++
			}
		}
	}
	return faults, checked
}

// reported are figures that users of other libraries reported, of these libraries. A line that has
// one says so.
var reported = []string{"9.3 %", "11.5 us"}

// TestFromFigures: each figure is one of PERFORMANCE, beside the same peer, or was reported.
func TestFromFigures(t *testing.T) {
	_, text := readDocument(t, fromPath)
	_, performance := readDocument(t, performancePath)
	for _, fault := range fromFigureFaults(text, performance) {
		t.Error(fault)
	}
}

// fromFigureFaults returns the figures that are neither in PERFORMANCE nor reported.
func fromFigureFaults(text, performance string) (faults []string) {
	pairs := map[string]bool{}
	for _, row := range figureRows(section(performance, "## What is reached")) {
		_, unit, _ := strings.Cut(row[0], " ")
		pairs[row[0]+" beside "+row[1]+" "+unit] = true
	}
	for line := range strings.Lines(withoutCode(text)) {
		var known []string
		for _, m := range besidePair.FindAllStringSubmatch(line, -1) {
			if pair := m[1] + " beside " + m[2]; !pairs[pair] {
				faults = append(faults, fmt.Sprintf("PERFORMANCE has no row with %s: %s", pair, strings.TrimSpace(line)))
			}
			known = append(known, m[1], m[2])
		}
		if strings.Contains(strings.ToLower(line), "reported") {
			known = append(known, reported...)
		}
		for _, figure := range measured.FindAllString(line, -1) {
			if !slices.Contains(known, figure) {
				faults = append(faults, fmt.Sprintf("%s has no peer and was not reported: %s", figure, strings.TrimSpace(line)))
			}
		}
	}
	return faults
}

// TestFromCode compiles the blocks of code.
func TestFromCode(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a package")
	}
	root, text := readDocument(t, fromPath)
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command here: ", err)
	}
	source, blocks := fromSource(text)
	if sections := strings.Count(text, "\n## From "); blocks != sections || blocks < 4 {
		t.Errorf("%d blocks of code in %d sections, want one in each", blocks, sections)
	}
	file := filepath.Join(t.TempDir(), "from.go")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(goCommand, "build", file)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go build of the code in %s: %v\n%s", fromPath, err, out)
	}
}

// fromSource returns a file with all blocks of code of a document, and their number.
func fromSource(text string) (source string, blocks int) {
	var code strings.Builder
	for _, m := range goBlock.FindAllStringSubmatch(text, -1) {
		code.WriteString("\n" + m[1])
		blocks++
	}
	var imports []string
	for _, m := range usedPackage.FindAllStringSubmatch(code.String(), -1) {
		path := m[1]
		switch path {
		case "ferry":
			path = module
		case "pipeline", "cu":
			path = module + "/" + path
		}
		imports = append(imports, fmt.Sprintf("import %q\n", path))
	}
	slices.Sort(imports)
	return "package from\n\n" + strings.Join(slices.Compact(imports), "") + code.String(), blocks
}

// TestFromSize: the section about the size of a service has the measured sizes.
func TestFromSize(t *testing.T) {
	root, text := readDocument(t, fromPath)
	var image struct {
		Program, Sum, Wheels int64
		Gzip                 int64 `json:"tar_gzip"`
		WheelFiles           int   `json:"wheel_files"`
		Needed               []string
		Ran                  string
	}
	readResult(t, root, "image.json", &image)
	text = strings.Join(strings.Fields(section(text, "## The size of a service")), " ")
	const mb, gb = 1e6, 1e9
	wants := []string{
		fmt.Sprintf("has %.1f MB, built", float64(image.Program)/mb),
		fmt.Sprintf("has %.1f MB, and %.1f MB compressed", float64(image.Sum)/mb, float64(image.Gzip)/mb),
		fmt.Sprintf("The %d wheels", image.WheelFiles),
		fmt.Sprintf("are %.2f GB to download", float64(image.Wheels)/gb),
	}
	for _, name := range image.Needed {
		wants = append(wants, "`"+name+"`")
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("the section lacks %q", want)
		}
	}
	if !strings.HasPrefix(image.Ran, "1 and 41 become") {
		t.Errorf("the image was not tried: %q", image.Ran)
	}
}

// TestFromFindsWhatIsWrong checks the checks.
func TestFromFindsWhatIsWrong(t *testing.T) {
	names := map[string]bool{"Copy": true, "Stream": true, "Stream.Wait": true, "cu.Driver": true}
	for line, want := range map[string]int{
		"| `copy` | `Copy`, `Stream.Wait`, `cu.Driver` | `Vec`, `Context.Close` |": 0,
		"| `copy` | `Copy(s, dst, src)` | no names |":                              0,
		"| `copy` | `Copies` | |":                                                  1,
		"| `copy` | `Stream.Sleep` | |":                                            1,
		"| `copy` | `cu.Diver` | |":                                                1,
		"| `copy` | `copy` | |":                                                    1,
		"| `copy` | none | it is `Stream.Sleep` |":                                 1,
		"| `copy` | none | it is `ferry.Vec` |":                                    1,
		"\nProse has `Stream.Sleep`, too, and `Vec`.":                              1,
		"\n## Ours\n`Copy` and `Vec`.":                                             1,
	} {
		text := "## From elsewhere\n| peer | Ferry | what differs |\n|---|---|---|\n" + line + "\n"
		if faults, _ := fromFaults(text, names); len(faults) != want {
			t.Errorf("%s has the faults %q, want %d", line, faults, want)
		}
	}
	const doc = "// # CUDA functions and their counterparts\n//\n//\tcuMemcpy   Copy: Stream\n//\tcuWait,\n//\tcuSleep    Stream.Wait\n//\n// # More\n"
	if faults, checked := counterpartFaults(doc, names); len(faults) != 0 || checked != 3 {
		t.Errorf("the right table has the faults %q, %d names", faults, checked)
	}
	if faults, _ := counterpartFaults(strings.Replace(doc, "Stream.Wait", "Stream.Sleep", 1), names); len(faults) != 1 {
		t.Errorf("a wrong name has the faults %q", faults)
	}
	const performance = "## What is reached\n| what | Ferry | peer | ratio |\n|---|---|---|---|\n| a copy (calls) | 1.5 us | 1.2 | 0.8 |\n"
	for line, want := range map[string]int{
		"1.5 us beside 1.2 us of C": 0, "1.5 us beside 1.2 us.": 0, "reported: 10 to 11.5 us": 0,
		"1.5 us beside 1.3 us of C": 1, "it takes 1.5 us": 1, "10 to 11.5 us": 1, "reported: 12 us": 1,
	} {
		if faults := fromFigureFaults(line, performance); len(faults) != want {
			t.Errorf("%q has the faults %q, want %d", line, faults, want)
		}
	}
}
