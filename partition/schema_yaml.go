package partition

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/conclave-dp/conclave/internal/config"
)

// schemaFile is schema.yaml as written. Pointers tell "left out" from zero.
type schemaFile struct {
	Name     string          `yaml:"name"`
	Task     string          `yaml:"task"`
	Label    string          `yaml:"label"`
	Positive scalar          `yaml:"positive"`
	Format   string          `yaml:"format"`
	Files    map[string]File `yaml:"files"`
	Notes    []string        `yaml:"notes"`
	Image    *Image          `yaml:"image"`
	CSV      *CSV            `yaml:"csv"`
	Ignore   []scalar        `yaml:"ignore"`
	Columns  []columnFile    `yaml:"columns"`
	// Constraints are checked by [Schema.resolveConstraints].
	Constraints []constraintFile `yaml:"constraints"`
}

type columnFile struct {
	Name       string    `yaml:"name"`
	Kind       string    `yaml:"kind"`
	Lower      bound     `yaml:"lower"`
	Upper      bound     `yaml:"upper"`
	Format     string    `yaml:"format"`
	Resolution string    `yaml:"resolution"`
	Categories []scalar  `yaml:"categories"`
	Names      []scalar  `yaml:"names"`
	Prefixes   []scalar  `yaml:"prefixes"`
	Codes      string    `yaml:"codes"`
	Pattern    string    `yaml:"pattern"`
	Clip       []bound   `yaml:"clip"`
	Nullable   bool      `yaml:"nullable"`
	Role       string    `yaml:"role"`
	Scale      string    `yaml:"scale"`
	Spikes     []float64 `yaml:"spikes"`
	Repeat     *int      `yaml:"repeat"`
	Doc        string    `yaml:"doc"`
	Source     string    `yaml:"source"`
}

// bound is a number, or a date of a column of dates.
type bound struct {
	scalar
	number *float64 // nil where the text is none
}

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (b *bound) UnmarshalYAML(node ast.Node) error {
	if node.Type() == ast.NullType {
		return nil
	}
	if err := b.scalar.UnmarshalYAML(node); err != nil {
		return err
	}
	var number float64
	if yaml.NodeToValue(node, &number) == nil {
		b.number = &number
	}
	return nil
}

// scalar is a YAML scalar as it is spelled, so that the categories [1, 2.50]
// match the cells 1 and 2.50 whether or not they are quoted.
type scalar struct {
	text string
	set  bool
}

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (s *scalar) UnmarshalYAML(node ast.Node) error {
	value, ok := node.(ast.ScalarNode)
	if !ok || node.Type() == ast.NullType {
		return errors.New("expected a word or a number; write it in quotes")
	}
	s.text, s.set = value.GetToken().Value, true
	return nil
}

// decodeSchemaFile is the strict YAML step: no unknown field, no field twice,
// no second document.
func decodeSchemaFile(raw []byte, name string) (file *schemaFile, err error) {
	// The YAML library works on text from outside; a defect in it must be an
	// error of that text and not the end of the process.
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, &InputError{File: name, Problem: "not valid YAML",
				Fix: "compare it with a schema that works"}
		}
	}()
	if err := config.CheckYAML(raw, maxSchemaBytes); err != nil {
		return nil, &InputError{File: name, Problem: err.Error(), Fix: "write the columns as plain lists and fields"}
	}
	if wrong := checkFinished(raw); wrong != nil {
		return nil, schemaErrors([]*schemaProblem{wrong}, raw, name)
	}
	file = new(schemaFile)
	decoder := yaml.NewDecoder(bytes.NewReader(raw), yaml.DisallowUnknownField())
	if err := decoder.Decode(file); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, &InputError{File: name, Problem: "the schema is empty", Fix: "list the columns under columns:"}
		}
		return nil, yamlError(err, name)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, &InputError{File: name, Problem: "more than one YAML document", Fix: "keep one schema per file"}
	}
	return file, nil
}

// yamlError turns the library's several errors into ours, with the line.
func yamlError(err error, name string) error {
	out := &InputError{File: name, Problem: "not a valid schema", Fix: "correct the YAML of that line"}
	var located yaml.Error
	if !errors.As(err, &located) {
		out.Err = err
		return out
	}
	if tok := located.GetToken(); tok != nil && tok.Position != nil {
		out.Line = tok.Position.Line
	}
	var unknown *yaml.UnknownFieldError
	var wrongType *yaml.TypeError
	switch {
	case errors.As(err, &unknown) && unknown.Token != nil:
		field := unknown.Token.Value
		out.Problem = fmt.Sprintf("unknown field %q", field)
		out.Fix = "correct its name or remove it; a schema knows " + fieldNames(schemaFile{}) + ", a column " +
			fieldNames(columnFile{}) + ", a constraint " + fieldNames(constraintFile{})
	case errors.As(err, &wrongType):
		out.Problem = fmt.Sprintf("%s must be %s", keyBefore(wrongType.Token), yamlType(wrongType.DstType))
		out.Fix = "correct that line"
	default:
		out.Err = errors.New(strings.TrimSpace(located.GetMessage()))
	}
	return out
}

// fieldNames lists the YAML fields of a struct for an error's fix.
func fieldNames(of any) string {
	t := reflect.TypeOf(of)
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("yaml")
	}
	return strings.Join(names, ", ")
}

func keyBefore(value *token.Token) string {
	if value != nil && value.Prev != nil && value.Prev.Type == token.MappingValueType && value.Prev.Prev != nil {
		return fmt.Sprintf("field %q", value.Prev.Prev.Value)
	}
	return "the value"
}

func yamlType(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "of another type"
	}
	switch t.Kind() {
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a mapping"
	default:
		return "text"
	}
}

// byteOrderMark is what some editors put in front of UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

// parseSchema decodes and checks a schema; name is for errors.
func parseSchema(raw []byte, name string) (*Schema, error) {
	if len(raw) > maxSchemaBytes || !utf8.Valid(raw) {
		return nil, &InputError{File: name, Problem: "not a text file in UTF-8 of reasonable size",
			Fix: "save the schema as UTF-8"}
	}
	// A byte order mark is no part of the YAML, but of the file and its digest.
	text := bytes.TrimPrefix(raw, []byte(byteOrderMark))
	file, err := decodeSchemaFile(text, name)
	if err != nil {
		return nil, err
	}
	s, wrong := buildSchema(file)
	if len(wrong) > 0 {
		return nil, schemaErrors(wrong, text, name)
	}
	sum := sha256.Sum256(raw)
	s.SHA256 = hex.EncodeToString(sum[:])
	s.raw = append([]byte(nil), raw...)
	return s, nil
}

// schemaErrors joins what is wrong with a schema, of many the first ones.
func schemaErrors(wrong []*schemaProblem, text []byte, name string) error {
	const most = 20
	tree := parsed(text)
	var all []error
	for i, w := range wrong {
		if i == most {
			all = append(all, fmt.Errorf("and %d more, which show when these are corrected", len(wrong)-i))
			break
		}
		all = append(all, &InputError{File: name, Line: lineOf(tree, w.path), Column: w.column, Problem: w.problem,
			Fix: w.fix})
	}
	return errors.Join(all...)
}

// parsed is the tree of a text that could be decoded before, for the lines of errors.
func parsed(text []byte) *ast.File {
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil
	}
	return tree
}

// lineOf finds the line of a YAML path, of the column it lies in when the
// field itself is not there, or 0. It is only used for errors.
func lineOf(tree *ast.File, path string) int {
	if tree == nil {
		return 0
	}
	for path != "" && path != "$" {
		if query, err := yaml.PathString(path); err == nil {
			if node, err := query.FilterFile(tree); err == nil && node != nil {
				if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
					return m.Values[0].Key.GetToken().Position.Line
				}
				return node.GetToken().Position.Line
			}
		}
		path = path[:strings.LastIndexAny(path, ".[")]
	}
	return 0
}
