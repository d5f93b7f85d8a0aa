package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// node is a value of a JSON text that knows where it stands, so that what is
// wrong with it can be pointed at.
type node struct {
	offset  int64
	token   json.Token       // a json.Delim for objects and lists
	members map[string]*node // of an object
	keys    []string         // in their order
	items   []*node          // of a list
}

// maxDepth is more than a profile has.
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

// next is a token and where it begins.
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
		return nil, fmt.Errorf("values %d deep: a profile has no such", depth)
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
			return fmt.Errorf("%q is there twice", name)
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

// position is the line and column, from 1, of a place in text.
func position(text []byte, offset int64) (line, column int) {
	before := text[:min(max(offset, 0), int64(len(text)))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

// words says what was found.
func (n *node) words() string {
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
