package config

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// checkWhole refuses a number with a fraction where a whole one is wanted: the YAML
// decoder would cut the fraction without a word.
func checkWhole(raw []byte, t reflect.Type) error {
	file, err := parser.ParseBytes(raw, 0)
	if err != nil || len(file.Docs) == 0 {
		return err // it was decoded, so this does not happen
	}
	return wholeIn(file.Docs[0].Body, t, "")
}

// wholeIn checks what a node holds for a type, of the named field.
func wholeIn(node ast.Node, t reflect.Type, field string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n := node.(type) {
	case *ast.FloatNode:
		switch t.Kind() {
		case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64:
			if n.Value != math.Trunc(n.Value) {
				at := n.GetToken().Position
				return fmt.Errorf("line %d, column %d: %s: want a whole number, not %v", at.Line, at.Column, field, n.Value)
			}
		}
	case *ast.SequenceNode:
		if t.Kind() == reflect.Slice {
			for _, v := range n.Values {
				if err := wholeIn(v, t.Elem(), field); err != nil {
					return err
				}
			}
		}
	case *ast.MappingNode:
		for _, v := range n.Values {
			if err := wholeIn(v, t, field); err != nil {
				return err
			}
		}
	case *ast.MappingValueNode:
		if t.Kind() != reflect.Struct {
			return nil
		}
		name := n.Key.String()
		for i := range t.NumField() {
			if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); tag == name {
				return wholeIn(n.Value, t.Field(i).Type, strings.TrimPrefix(field+"."+name, "."))
			}
		}
	}
	return nil
}
