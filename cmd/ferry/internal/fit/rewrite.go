package fit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// object is a JSON object whose keys keep their order. Values are objects or text.
type object struct {
	keys   []string
	values map[string]any
}

// rewrite sets values in a document by their paths. It leaves the rest unchanged.
func rewrite(text []byte, values map[string]any) ([]byte, error) {
	doc, err := parse(text)
	if err != nil {
		return nil, err
	}
	var paths []string
	for path := range values {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		encoded, err := json.Marshal(values[path])
		if err != nil {
			return nil, err
		}
		value, err := parseValue(encoded)
		if err != nil {
			return nil, err
		}
		if err := doc.put(strings.Split(path, "."), value); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	var b bytes.Buffer
	doc.write(&b, 0)
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func (o *object) put(path []string, value any) error {
	if len(path) == 1 {
		if o.values[path[0]] == nil {
			o.keys = append(o.keys, path[0])
		}
		o.values[path[0]] = value
		return nil
	}
	if o.values[path[0]] == nil {
		o.keys = append(o.keys, path[0])
		o.values[path[0]] = &object{values: map[string]any{}}
	}
	inner, ok := o.values[path[0]].(*object)
	if !ok {
		return fmt.Errorf("%s is not an object", path[0])
	}
	return inner.put(path[1:], value)
}

func parseValue(text []byte) (any, error) {
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] == '{' {
		return parse(text)
	}
	var b bytes.Buffer
	err := json.Compact(&b, text)
	return b.String(), err
}

func parse(text []byte) (*object, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	o := &object{values: map[string]any{}}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		name := key.(string)
		o.keys = append(o.keys, name)
		if o.values[name], err = parseValue(raw); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// write writes the object with one line for each number and each point.
func (o *object) write(b *bytes.Buffer, depth int) {
	if o.leaf() {
		o.writeLine(b)
		return
	}
	indent := strings.Repeat(" ", depth+1)
	b.WriteString("{\n")
	for i, key := range o.keys {
		fmt.Fprintf(b, "%s%q: ", indent, key)
		switch v := o.values[key].(type) {
		case *object:
			v.write(b, depth+1)
		case string:
			b.WriteString(points(v, indent))
		}
		if i < len(o.keys)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString(indent[1:] + "}")
}

// leaf reports whether no value is an object or a list. Such an object is written in one
// line.
func (o *object) leaf() bool {
	for _, v := range o.values {
		if s, ok := v.(string); !ok || strings.HasPrefix(s, "[") {
			return false
		}
	}
	return true
}

func (o *object) writeLine(b *bytes.Buffer) {
	b.WriteByte('{')
	for i, key := range o.keys {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "%q: %s", key, o.values[key])
	}
	b.WriteByte('}')
}

// points formats a list with one line for each of its objects.
func points(v, indent string) string {
	if !strings.HasPrefix(v, "[{") {
		return v
	}
	v = strings.ReplaceAll(v, "},{", "},\n"+indent+" {")
	v = strings.ReplaceAll(v, `":`, `": `)
	v = strings.ReplaceAll(v, `,"`, `, "`)
	return "[\n" + indent + " " + v[1:len(v)-1] + "\n" + indent + "]"
}
