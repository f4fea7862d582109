package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// checkValues refuses what the YAML decoder would take for something else without a word: a
// number with a fraction where a whole one is wanted, which it would cut, a number with a zero
// before it, which it would read as octal, and a field whose value was forgotten, which it would
// leave out. And it finds the field of words that are no number or duration, which the decoder
// does not name.
func checkValues(raw []byte, t reflect.Type) error {
	file, err := parser.ParseBytes(raw, 0)
	if err != nil || len(file.Docs) == 0 {
		return nil // the decoder has said so
	}
	return valuesIn(file.Docs[0].Body, t, "")
}

// valuesIn checks a node's values for a type, of the named field.
func valuesIn(node ast.Node, t reflect.Type, field string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	wrong := func(format string, args ...any) error {
		at := node.GetToken().Position
		return fmt.Errorf("line %d, column %d: %s: %w", at.Line, at.Column, field, fmt.Errorf(format, args...))
	}
	switch n := node.(type) {
	case *ast.IntegerNode:
		// YAML reads 010 as 8.
		if digits := strings.TrimLeft(n.Token.Value, "+-"); t.Kind() != reflect.String && len(digits) > 1 &&
			digits[0] == '0' {
			return wrong("want a decimal number without a zero before it, not %.60s", n.Token.Value)
		}
	case *ast.FloatNode:
		if whole(t) && n.Value != math.Trunc(n.Value) {
			return wrong("want a whole number, not %v", n.Value)
		}
	case *ast.StringNode: // the parser's for 1e-3 and 1e400 as well, which the decoder takes for numbers
		v, err := strconv.ParseFloat(n.Value, 64)
		if whole(t) && (err != nil || v != math.Trunc(v)) {
			return wrong("want a whole number, not %.60s", n.Value)
		}
		if t.Kind() == reflect.Float64 && err != nil {
			return wrong("want a number, not %.60s", n.Value)
		}
		if _, err := time.ParseDuration(n.Value); t == reflect.TypeFor[time.Duration]() && err != nil {
			return wrong("want a duration such as 10s, not %.60s", n.Value)
		}
	case *ast.NullNode:
		switch t.Kind() {
		case reflect.Struct, reflect.Slice, reflect.Map: // of which all was commented out
		default:
			return wrong("has no value; give it one, or remove the line")
		}
	case *ast.SequenceNode:
		if t.Kind() == reflect.Slice {
			for _, v := range n.Values {
				if err := valuesIn(v, t.Elem(), field); err != nil {
					return err
				}
			}
		}
	case *ast.MappingNode:
		for _, v := range n.Values {
			if err := valuesIn(v, t, field); err != nil {
				return err
			}
		}
	case *ast.MappingValueNode:
		if t.Kind() != reflect.Struct {
			return nil
		}
		name := n.Key.String()
		for _, f := range reflect.VisibleFields(t) { // those of inlined structs among them
			if tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); tag == name {
				return valuesIn(n.Value, f.Type, strings.TrimPrefix(field+"."+name, "."))
			}
		}
	}
	return nil
}

// whole tells whether a type takes whole numbers, durations not among them.
func whole(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return t != reflect.TypeFor[time.Duration]()
	default:
		return false
	}
}
