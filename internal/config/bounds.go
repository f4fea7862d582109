package config

import (
	"fmt"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

const (
	// MaxFile is the largest configuration file in bytes. The largest that are written by hand
	// have some thousand.
	MaxFile = 1 << 20
	// maxDepth is how deep lists and fields may be nested. Files of ours need six.
	maxDepth = 32
)

// CheckYAML refuses text that a YAML parser may take without end, before one reads it: text
// above most bytes, anchors and aliases, which make much of little, and nesting deeper than any
// file of ours. It takes time and memory in proportion to the text. The error says the line
// and what to do.
func CheckYAML(text []byte, most int) error {
	if len(text) > most {
		return fmt.Errorf("the file has %d bytes; the maximum is %d", len(text), most)
	}
	var nested nesting
	for _, t := range lexer.Tokenize(string(text)) {
		switch t.Type {
		case token.AnchorType, token.AliasType:
			return fmt.Errorf("line %d, column %d: anchors (&) and aliases (*) are not allowed; write the value "+
				"where it is used, or in quotes", t.Position.Line, t.Position.Column)
		}
		if depth := nested.at(t); depth > maxDepth {
			return fmt.Errorf("line %d, column %d: lists and fields are nested %d deep; the maximum is %d",
				t.Position.Line, t.Position.Column, depth, maxDepth)
		}
	}
	return nil
}

// nesting follows how deep a token lies.
type nesting struct {
	brackets int
	// entries are those of lists and keys in block style that stand within brackets, where files have none and
	// parsers take each for one more level, and names that follow a name: all until the brackets are closed.
	entries int
	// columns are those where the open lists and fields in block style began, each further
	// right than the one before.
	columns []int
}

// at is the depth of the next token.
func (n *nesting) at(t *token.Token) int {
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		n.brackets++
	case token.SequenceEndType, token.MappingEndType:
		if n.brackets = max(0, n.brackets-1); n.brackets == 0 {
			n.entries = 0
		}
	case token.SequenceEntryType, token.MappingKeyType:
		if n.brackets > 0 {
			n.entries++
		}
		n.open(t.Position.Column)
	case token.MappingValueType:
		if t.Prev != nil { // the field's name
			t = t.Prev
		}
		if n.brackets > 0 && t.Prev != nil && t.Prev.Type == token.MappingValueType {
			n.entries++
		}
		n.open(t.Position.Column)
	case token.DocumentHeaderType, token.DocumentEndType:
		*n = nesting{}
	}
	return n.brackets + n.entries + len(n.columns)
}

func (n *nesting) open(column int) {
	if n.brackets > 0 {
		return
	}
	for len(n.columns) > 0 && n.columns[len(n.columns)-1] >= column {
		n.columns = n.columns[:len(n.columns)-1]
	}
	n.columns = append(n.columns, column)
}
