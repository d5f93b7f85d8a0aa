package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // for the files of the page
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strconv"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed load.js
var loadJS string

//go:embed page.js
var pageJS string

//go:embed uplot/uPlot.iife.min.js
var uplotJS string

//go:embed uplot/uPlot.min.css
var uplotCSS string

//go:embed uplot/LICENSE
var uplotLicence string

var tmpl = template.Must(template.New("page").Funcs(template.FuncMap{
	"bar":  bar,
	"text": func(i, words int) bool { return i < words },
	"last": func(i int, row Row) bool { return i == len(row.Cells)-1 },
}).Parse(pageHTML))

// view is what the template gets.
type view struct {
	*Page
	CSS           template.CSS
	Loader        template.JS
	Policy        string
	Charts        []chartView
	First, Others []tableView
	Licence       template.HTML
	// Data are those of the charts. All three are packed.
	Script, Data, Document template.HTML
}

// tableView is a table and what the template needs beside.
type tableView struct {
	*Table
	ID, Marked string
	Open       bool // whether it is shown at once
	First      bool // whether it stands before the charts
}

// chartView is a chart with its table.
type chartView struct {
	*Chart
	Marked string
	Table  tableView
}

// Render writes the page as HTML. Text of the page is escaped. The content security policy
// allows only the loader and the script of the page, and no loads.
func (p *Page) Render(w io.Writer) error {
	script := uplotJS + "\n" + pageJS
	v := &view{Page: p, CSS: template.CSS(uplotCSS + pageCSS), Loader: template.JS(loadJS),
		Licence: template.HTML("<!-- uPlot:\n" + uplotLicence + "-->")}
	v.Policy = "default-src 'none'; style-src 'unsafe-inline'; script-src " + hash(loadJS) + " " + hash(script)
	for _, c := range p.Charts {
		v.Charts = append(v.Charts, chartView{c, p.Marked, tableView{c.Table, c.ID + "-table", p.Marked, false, false}})
	}
	for i, t := range p.First {
		v.First = append(v.First, tableView{t, "first-" + strconv.Itoa(i+1), p.Marked, !t.Closed, true})
	}
	for i, t := range p.Tables {
		v.Others = append(v.Others, tableView{t, "table-" + strconv.Itoa(i+1), p.Marked, len(t.Rows) <= openRows, false})
	}
	data, err := json.Marshal(p.data())
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	v.Script, v.Data, v.Document = packed([]byte(script)), packed(data), packed(p.Raw)
	if err := tmpl.Execute(w, v); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// openRows is the number of rows up to which a table without a chart is shown at once.
const openRows = 40

// hash returns the source of a script in a content security policy.
func hash(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// packed returns a text as base64 of gzip, which the loader unpacks. Scripts and data are two
// thirds of a page, and are a fifth as long when packed.
func packed(text []byte) template.HTML {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("BUG: page: gzip into memory: " + err.Error())
	}
	return template.HTML(base64.StdEncoding.EncodeToString(b.Bytes()))
}

// bar returns the style of the bar of a row: it begins in the middle of the cell.
func bar(v float64) template.CSS {
	from, to := 50.0, 50+50*v
	if v < 0 {
		from, to = to, from
	}
	return template.CSS(fmt.Sprintf("--from:%.1f%%;--to:%.1f%%", from, to))
}
