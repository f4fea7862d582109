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

// schemaFile is schema.yaml as written. Pointers distinguish an omitted field from zero.
type schemaFile struct {
	// Name is a remark.
	Name string `yaml:"name"`
	// Task is what the label is for: `binary`, `multiclass`, `regression` or `none`. It is checked against the label.
	// Default: follows the label.
	Task string `yaml:"task"`
	// Label is the column for which rows are generated. If it is categorical or binary, the generator is conditional on
	// it, and teachers have one network per class (unless `gpate.teacher.networks` says otherwise). The run then pays
	// for the class shares. A number or a date is a column like any other. The label cannot be nullable, have a role or
	// be an identifier.
	Label string `yaml:"label"`
	// Positive is the class that counts as positive in the report's AUROC. Default: the second of two classes.
	Positive scalar `yaml:"positive"`
	// Format is the format of the files: `csv`, or `idx` for images (docs/schema.md#images). Default: `csv`.
	Format string `yaml:"format"`
	// Files is a remark: it maps a split to `path` (or `images` and `labels`) and `rows`. Nothing reads it.
	Files map[string]File `yaml:"files"`
	// Notes are remarks.
	Notes []string `yaml:"notes"`
	// Image is the shape of images, for the format `idx`.
	Image *Image `yaml:"image"`
	// CSV is how CSV files are written (docs/schema.md#the-csv-file), if that cannot be detected. Default: detected in
	// each file.
	CSV *CSV `yaml:"csv"`
	// Ignore lists columns that a file may have and nothing reads, such as remarks: `ignore: [remarks, ward name]`.
	Ignore []scalar `yaml:"ignore"`
	// Columns are the columns, in the order of the synthetic rows. There is at least one besides label, unit and
	// identifiers. Required.
	Columns []columnFile `yaml:"columns"`
	// Constraints are rules that every row meets (docs/schema.md#constraints).
	Constraints []constraintFile `yaml:"constraints"`
}

// SchemaFile is a struct with all fields of a schema.yaml.
func SchemaFile() reflect.Type { return reflect.TypeFor[schemaFile]() }

// columnFile is a column as written.
type columnFile struct {
	// Name is the name in the CSV header. It is unique. Required.
	Name string `yaml:"name"`
	// Kind is `continuous`, `integer`, `categorical`, `binary` (0 and 1), `date` or `datetime` (docs/schema.md#dates),
	// `code` (docs/schema.md#codes) or `identifier` (docs/schema.md#identifiers-and-free-text). A column with
	// `role: unit` may leave it out; its cells are then any text. Required.
	Kind string `yaml:"kind"`
	// Lower is the public lower bound, included. It is a whole number for integers, and `2024-12-31` or
	// `2024-12-31T23:59` for dates. For a binary column it is 0 and may be left out. Values are scaled to [0,1] between
	// the bounds, so wide bounds cost resolution. Default: required for numbers and dates.
	Lower bound `yaml:"lower"`
	// Upper is the public upper bound, included, written like `lower`. For a binary column it is 1 and may be left out.
	// Default: required for numbers and dates.
	Upper bound `yaml:"upper"`
	// Format is how the table writes dates (docs/schema.md#dates). Default: `YYYY-MM-DD`, for a datetime with ` hh:mm`.
	Format string `yaml:"format"`
	// Resolution is the unit in which dates are counted (docs/schema.md#dates). Default: `day`, for a datetime
	// `minute`.
	Resolution string `yaml:"resolution"`
	// Categories are all values that a cell may have; case and spaces count. List values that might occur even if they
	// do not. Default: required for categorical columns.
	Categories []scalar `yaml:"categories"`
	// Names are words for the categories or prefixes, in their order, for reports.
	Names []scalar `yaml:"names"`
	// Prefixes are the groups by which a column of codes (docs/schema.md#codes) is learned. Default: required for
	// codes.
	Prefixes []scalar `yaml:"prefixes"`
	// Codes is the name of the site's list of codes (docs/schema.md#codes), a file next to the schema.
	Codes string `yaml:"codes"`
	// Pattern is how identifiers (docs/schema.md#identifiers-and-free-text) are written. Default: running numbers.
	Pattern string `yaml:"pattern"`
	// Clip is `[lo, hi]` inside lower and upper. Every finite number or date outside moves to the nearest edge, however
	// far away it is. Without `clip` a number outside the bounds is an error. Synthetic numbers lie within `clip`.
	Clip []bound `yaml:"clip"`
	// Nullable is whether a cell may be empty. An empty cell is then a value of its own and occurs in synthetic rows.
	// Otherwise it is an error.
	Nullable bool `yaml:"nullable"`
	// Role is `unit` or `site`. `unit`: the column identifies the privacy unit, such as a patient. Give its name to
	// `privacy.unit` in run.yaml, and to `unit` of nodes and aggregator. `site`: the column is categorical and names
	// the institution; a node takes the rows of its own site. There is at most one column of each role, and it is not
	// nullable.
	Role string `yaml:"role"`
	// Scale is how numbers are scaled between the bounds: `linear`, or `log` for skewed numbers from 0 on. `log` scales
	// them by log(1 + v), so that small values get more room. Default: `linear`.
	Scale string `yaml:"scale"`
	// Spikes are numbers that many rows have exactly, such as 0 or 40 hours a week; at most 32. The pipeline
	// `marginals` (docs/marginals.md) gives each a cell of its own and draws exactly it; other pipelines ignore them.
	// Whole numbers with few values need none, since each value is a cell.
	Spikes []bound `yaml:"spikes"`
	// Repeat is the number n of columns that this one stands for, name_0 to name_(n-1). Default: 1.
	Repeat *int `yaml:"repeat"`
	// Doc is a remark, shown in the report.
	Doc string `yaml:"doc"`
	// Source is where bounds or categories come from: `dictionary`, `built-in` or `rows`. The certificate lists columns
	// with `rows`: no guarantee covers what the schema says about them.
	Source string `yaml:"source"`
}

// bound is a number or a date.
type bound struct {
	scalar
	number *float64 // nil if the text is not a number
}

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (b *bound) UnmarshalYAML(node ast.Node) error {
	if node.Type() == ast.NullType {
		return nil
	}
	if err := b.scalar.UnmarshalYAML(node); err != nil {
		return err
	}
	// Numbers are read as those of cells are: YAML would read 010 as 8.
	if number, wrong := ParseNumber(b.text); wrong == nil {
		b.number = &number
	}
	return nil
}

// scalar is a word or a number. It keeps its spelling, so that the categories [1, 2.50] match the cells 1 and 2.50
// whether or not they are quoted.
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

// decodeSchemaFile is the strict YAML step: no unknown field, no duplicate field, no second document.
func decodeSchemaFile(raw []byte, name string) (file *schemaFile, err error) {
	// The YAML library parses text from outside: a panic in it must become an error, and not end the process.
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, &InputError{File: name, Problem: "not valid YAML",
				Fix: "compare it with a schema that works"}
		}
	}()
	if err := config.CheckYAML(raw, MaxSchemaBytes); err != nil {
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

// yamlError converts the library's errors to ours, with the line.
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

// byteOrderMark is what some editors write before UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

// parseSchema decodes and checks a schema; name is for errors.
func parseSchema(raw []byte, name string) (*Schema, error) {
	if len(raw) > MaxSchemaBytes || !utf8.Valid(raw) {
		return nil, &InputError{File: name, Problem: "not a text file in UTF-8 of reasonable size",
			Fix: "save the schema as UTF-8"}
	}
	// A byte order mark is not part of the YAML, but it is part of the file and its digest.
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

// schemaErrors joins the problems of a schema, but only the first of many.
func schemaErrors(wrong []*schemaProblem, text []byte, name string) error {
	tree := parsed(text)
	return JoinFirst(len(wrong), func(i int) error {
		w := wrong[i]
		return &InputError{File: name, Line: lineOf(tree, w.path), Column: w.column, Problem: w.problem, Fix: w.fix}
	})
}

// parsed is the tree of a text that was decoded before, for the lines of errors.
func parsed(text []byte) *ast.File {
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil
	}
	return tree
}

// lineOf returns the line of a YAML path, or of its column if the field is missing, or 0. It is only used for errors.
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
