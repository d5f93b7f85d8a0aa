package hostile

import "strings"

// JSON returns documents of about [Bytes] bytes, by name. Each begins with head, such as
// {"schema":"ferry.grid/1", and the field is one of its lists.
func JSON(head, field string) map[string]string {
	list := head + `,"` + field + `":[`
	return map[string]string{
		"zeros":                  strings.Repeat("\x00", Bytes),
		"letters":                strings.Repeat("a", Bytes),
		"blanks":                 strings.Repeat(" ", Bytes),
		"deep lists":             strings.Repeat("[", Bytes),
		"deep objects":           strings.Repeat(`{"a":`, Bytes/5),
		"deep lists in a field":  nest(list, "[", "", "]", "]}"),
		"lists of 9000 in a row": nest(list, strings.Repeat("[", 4000), "", strings.Repeat("]", 4000), "]}"),
		"deep objects in a list": nest(list, `{"a":`, "1", "}", "]}"),
		"many nulls":             fill(list+"null", ",null", "]}"),
		"many empty objects":     fill(list+"{}", ",{}", "]}"),
		"many empty lists":       fill(list+"[]", ",[]", "]}"),
		"many numbers":           fill(list+"1", ",1", "]}"),
		"many fields":            fill(head, `,"a#":1`, "}"),
		"one field often":        fill(head, `,"`+field+`":[]`, "}"),
		"schemas":                fill("{", `"schema":"x",`, `"a":1}`),
		"a long number":          head + `,"` + field + `":` + strings.Repeat("9", Bytes) + "}",
		"a long fraction":        list + "0." + strings.Repeat("3", Bytes) + "]}",
		"a huge exponent":        list + "1e" + strings.Repeat("9", Bytes) + "]}",
		"a long string":          list + `"` + strings.Repeat("x", Bytes) + `"]}`,
		"a long string of marks": list + `"` + strings.Repeat(`\u0000`, Bytes/6) + `"]}`,
		"a long name":            head + `,"` + strings.Repeat("x", Bytes) + `":1}`,
		"invalid text":           list + `"` + strings.Repeat("\xff", Bytes) + `"]}`,
		"an error at the end":    fill(list+"1", ",1", "}"),
		"lines":                  head + strings.Repeat("\n", Bytes) + "x",
	}
}

// Recordings returns recordings of about [Bytes] bytes, by name. Each begins with head, its
// first line.
func Recordings(head string) map[string]string {
	all := map[string]string{}
	for name, text := range JSON(strings.TrimSuffix(strings.TrimSpace(head), "}"), "x") {
		all["line of "+name] = text
	}
	for name, row := range map[string]string{
		"empty lines":        "\n",
		"empty rows":         "{}\n",
		"calls":              `{"call":#}` + "\n",
		"calls of one name":  `{"call":#,"name":"cuMemcpy","end":9}` + "\n",
		"calls with names":   `{"call":#,"name":"#","end":9}` + "\n",
		"calls on tracks":    `{"call":#,"track":#,"end":9}` + "\n",
		"calls with nodes":   `{"call":#,"name":"cuMemAlloc","end":9,"address":4096,"bytes":4096}` + "\n",
		"operations":         `{"op":#,"name":"k","end":9}` + "\n",
		"long operations":    `{"op":#,"engine":"e","end":9223372036854775807}` + "\n",
		"backward ones":      `{"op":#,"engine":"e","start":9223372036854775807,"end":-9223372036854775808}` + "\n",
		"copies":             `{"op":#,"from":"pageable","to":"device","bytes":9,"end":9,"call":#}` + "\n",
		"copies of devices":  `{"op":#,"device":#,"from":"pageable","to":"device","bytes":9,"end":9}` + "\n",
		"huge copies":        `{"op":#,"from":"pinned","to":"device","bytes":18446744073709551615,"end":9}` + "\n",
		"operations on many": `{"op":#,"device":#,"driver":#,"stream":#,"end":9}` + "\n",
		"kinds of memory":    `{"op":#,"from":"#","to":"#","bytes":9,"end":9}` + "\n",
		"untimed ones":       `{"op":#,"untimed":"#"}` + "\n",
		"sites":              `{"site":#,"file":"a"}` + "\n",
		"drivers":            `{"driver":#,"clock":"virtual"}` + "\n",
		"one driver often":   `{"driver":0,"clock":"virtual"}` + "\n",
		"devices":            `{"device":#,"name":"#"}` + "\n",
		"devices of drivers": `{"driver":0,"clock":"virtual","profile":"h200"}` + "\n" + `{"device":#,"name":"#"}` + "\n",
		"chains":             `{"op":#,"call":1,"after":1,"why":"order","end":9}` + "\n",
		"allocations and copies": `{"call":#,"name":"cuMemAlloc","end":9,"address":#000,"bytes":9999999}` + "\n" +
			`{"call":#,"name":"cuMemcpy","end":9,"address":#000,"source":#000,"bytes":99}` + "\n",
	} {
		all[name] = fill(head, row, "")
	}
	all["a row without an end"] = head + `{"call":` + strings.Repeat("9", Bytes)
	return all
}
