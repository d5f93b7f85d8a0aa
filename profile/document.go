package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ferrygpu/ferry/internal/printable"
)

// node is a value of a JSON text with its position, which error messages need.
type node struct {
	offset  int64            // of the first byte
	token   json.Token       // a json.Delim for objects and lists
	members map[string]*node // of an object
	keys    []string         // of an object, in their order
	items   []*node          // of a list
}

// maxDepth limits how deep values are nested. A profile has fewer levels.
const maxDepth = 12

// parse reads a whole JSON text.
func parse(text []byte) (*node, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	p := &reader{text: text, decoder: d}
	n, err := p.value(0)
	if err == nil {
		_, err = d.Token()
		switch {
		case err == io.EOF:
			return n, nil
		case err == nil:
			err = errors.New("more text after the document's end")
		}
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	at := d.InputOffset()
	if bad := (*json.SyntaxError)(nil); errors.As(err, &bad) {
		at = max(at, bad.Offset-1)
	}
	line, column := position(text, at)
	return nil, fmt.Errorf("line %d, column %d: %w", line, column, err)
}

type reader struct {
	text    []byte
	decoder *json.Decoder
}

// next reads a token. It returns the token and the offset of its first byte.
func (p *reader) next() (json.Token, int64, error) {
	at := p.decoder.InputOffset()
	for at < int64(len(p.text)) && strings.IndexByte(" \t\r\n,:", p.text[at]) >= 0 {
		at++
	}
	t, err := p.decoder.Token()
	return t, at, err
}

func (p *reader) value(depth int) (*node, error) {
	t, at, err := p.next()
	if err != nil {
		return nil, err
	}
	n := &node{offset: at, token: t}
	if depth > maxDepth {
		return nil, fmt.Errorf("values are nested more than %d deep", maxDepth)
	}
	switch t {
	case json.Delim('{'):
		return n, p.object(n, depth)
	case json.Delim('['):
		return n, p.list(n, depth)
	}
	return n, nil
}

func (p *reader) object(n *node, depth int) error {
	n.members = map[string]*node{}
	for p.decoder.More() {
		key, _, err := p.next()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if n.members[name] != nil {
			return fmt.Errorf("field %s occurs twice", printable.Value(name))
		}
		member, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.members[name] = member
		n.keys = append(n.keys, name)
	}
	_, _, err := p.next()
	return err
}

func (p *reader) list(n *node, depth int) error {
	for p.decoder.More() {
		item, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, _, err := p.next()
	return err
}

// position converts an offset in text to a line and a column, both from 1.
func position(text []byte, offset int64) (line, column int) {
	before := text[:min(max(offset, 0), int64(len(text)))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

// names returns the names of the members, also of no node.
func (n *node) names() []string {
	if n == nil {
		return nil
	}
	return n.keys
}

// text returns a text as it is in the document, or "" for another value.
func (n *node) text() string {
	s, _ := n.token.(string)
	return s
}

// describe names the value for error messages.
func (n *node) describe() string {
	switch t := n.token.(type) {
	case nil:
		return "null"
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "a list"
	case string:
		return fmt.Sprintf("the text %.40q", t)
	default:
		return fmt.Sprintf("%.40v", t)
	}
}
