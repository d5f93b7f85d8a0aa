package profile

import (
	"bytes"
	"embed"
	"encoding/json"
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

// Parse reads a profile and checks it: the schema, the names, that every number
// has a source that is explained, that curves rise.
func Parse(text []byte) (*Profile, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	p := new(Profile)
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if p.Schema != Schema {
		return nil, fmt.Errorf("profile: schema %q: this Ferry reads %q", p.Schema, Schema)
	}
	if p.Name == "" || p.Title == "" {
		return nil, fmt.Errorf("profile: name and title must be given")
	}
	if p.Memory.Value <= 0 {
		return nil, fmt.Errorf("profile %s: memory_bytes must be positive", p.Name)
	}
	if err := p.check("", reflect.ValueOf(*p)); err != nil {
		return nil, fmt.Errorf("profile %s: %w", p.Name, err)
	}
	return p, nil
}

// check walks all numbers and curves below v.
func (p *Profile) check(path string, v reflect.Value) error {
	switch x := v.Interface().(type) {
	case Number:
		return p.source(path, x.Source)
	case Curve:
		if err := p.source(path, x.Source); err != nil {
			return err
		}
		return x.check(path)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if err := p.check(strings.TrimPrefix(path+"."+name, "."), v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		if v.Type().Elem() != reflect.TypeFor[Number]() {
			return nil
		}
		for it := v.MapRange(); it.Next(); {
			if err := p.check(path+"."+it.Key().String(), it.Value()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Profile) source(path, source string) error {
	if p.Sources[source] == "" {
		return fmt.Errorf("%s has source %q, which \"sources\" does not explain", path, source)
	}
	return nil
}
