package profile

import (
	"embed"
	"fmt"
	"os"
	"reflect"
	"strings"
)

//go:embed *.json
var shipped embed.FS

// Names are the profiles that Ferry ships, in alphabetical order.
func Names() []string {
	entries, _ := shipped.ReadDir(".")
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// Named is a shipped profile.
func Named(name string) (*Profile, error) {
	text, err := shipped.ReadFile(name + ".json")
	if err != nil {
		return nil, fmt.Errorf("no profile %q: there are %s; or give the path of a .json file", name, strings.Join(Names(), ", "))
	}
	return Parse(text)
}

// Load reads a profile from a file.
func Load(path string) (*Profile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load profile: %w", err)
	}
	p, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("load profile %s: %w", path, err)
	}
	return p, nil
}

// Parse reads a profile and checks it: the schema, that every field is there and
// none that is not known, that every number is possible and has a source that is
// explained, that curves rise. What it finds wrong are [FieldError]s, joined;
// no text makes it panic.
func Parse(text []byte) (*Profile, error) {
	n, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	d := &decoder{text: text}
	if schema := n.members["schema"]; schema != nil && schema.token != Schema {
		d.fail(schema, "schema", "found %s, this Ferry reads %q", schema.words(), Schema)
		return nil, fmt.Errorf("profile: %w", d.err())
	}
	p := new(Profile)
	d.fill(reflect.ValueOf(p).Elem(), n, "")
	d.checkSources(p.Sources, n)
	for name, text := range map[string]string{"name": p.Name, "title": p.Title} {
		if m := n.members[name]; m != nil && text == "" {
			d.fail(m, name, "found nothing, want the machine's")
		}
	}
	if err := d.err(); err != nil {
		return nil, fmt.Errorf("profile %s: %w", p.Name, err)
	}
	return p, nil
}
