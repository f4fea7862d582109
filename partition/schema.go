package partition

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/config"
)

// ColumnKind says what the cells of a column are.
type ColumnKind string

// The kinds of columns. Text is a unit column without its own kind: its cells are identifiers. The last four are
// kinds in the schema only, see [Column.Declared].
const (
	Continuous  ColumnKind = "continuous"
	Integer     ColumnKind = "integer"
	Categorical ColumnKind = "categorical"
	Binary      ColumnKind = "binary"
	Text        ColumnKind = "text"
	Date        ColumnKind = "date"       // an Integer: units since Lower
	Datetime    ColumnKind = "datetime"   // an Integer: units since Lower
	Code        ColumnKind = "code"       // Categorical: prefixes of codes
	Identifier  ColumnKind = "identifier" // Text that is parsed and dropped, and made up when written
)

// Role is a column's meaning beyond its data.
type Role string

// The roles of columns.
const (
	RoleNone Role = ""
	RoleSite Role = "site" // the institution a row belongs to
	RoleUnit Role = "unit" // the identifier of the privacy unit a row belongs to
)

// Scale is how a number maps to [0,1] when it is encoded.
type Scale string

// The scales; see the package documentation.
const (
	Linear Scale = "linear"
	Log    Scale = "log"
)

// UnitRecord is the privacy unit of a table in which every row is a unit.
const UnitRecord = "record"

// Schema is the public description of a table. Load it with LoadSchema or ParseSchema, which check it; all other
// functions rely on that.
type Schema struct {
	Name    string
	Task    string // "binary", "multiclass", "regression" or "none"
	Label   string // empty if there is none
	Format  string // "csv" or "idx"
	Image   *Image // of format idx
	Files   map[string]File
	Notes   []string
	CSV     CSV
	Ignore  []string // names of columns that a source may have but that nothing reads
	Columns []Column // in the order of the released table, repeated ones expanded
	SHA256  string   // of the file's bytes, in hex

	constraints []Constraint

	raw      []byte
	positive int
	label    int
	site     int
	unit     int
}

// Column is one column of a schema.
type Column struct {
	Name         string
	Kind         ColumnKind  // the kind used for computation
	Lower, Upper float64     // of a number; 0 and 1 for binary, 0 and the last unit for a date
	Categories   []string    // of a categorical column, in the order of their cells
	Names        []string    // words for the categories, nil if they need none
	Clip         *[2]float64 // nil: numbers outside the bounds are errors
	Nullable     bool
	Role         Role
	Scale        Scale // Linear or Log for numbers, empty otherwise
	Doc          string
	Source       Source // where bounds or categories come from
	// Points are numbers that the schema names, ascending: spikes, and numbers in constraints. Each has its own cell
	// in tables, and its feature decodes to exactly it.
	Points []float64

	index    map[string]int // category -> cell
	declared ColumnKind     // as in the schema
	spelled  spelling       // nil if cells are written as their kind is
}

// File names the files of one split of a data set, relative to the schema.
type File struct {
	Path   string `yaml:"path"`
	Images string `yaml:"images"` // of format idx
	Labels string `yaml:"labels"` // of format idx
	Rows   int    `yaml:"rows"`
}

// Image is the shape of the images of format idx.
type Image struct {
	// Height is the number of rows of pixels. Required.
	Height int `yaml:"height"`
	// Width is the number of pixels in a row. Required.
	Width int `yaml:"width"`
	// Channels is the number of values of a pixel: 1 for grey, 3 for colour. Required.
	Channels int `yaml:"channels"`
}

// Size returns the number of bytes of an image.
func (i Image) Size() int { return i.Height * i.Width * i.Channels }

// MaxSchemaBytes bounds a schema file; the largest known one has 618 columns in 40 KB.
const MaxSchemaBytes = config.MaxFile

// LoadSchema reads and checks a schema file, and the lists of codes that it names and that exist next to it. Errors
// are *InputError; several mistakes are joined.
func LoadSchema(path string) (*Schema, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > MaxSchemaBytes {
		return nil, &InputError{File: path, Problem: fmt.Sprintf("a schema has at most %d MiB", MaxSchemaBytes>>20),
			Fix: "check that it is one, and list fewer or shorter categories, names and remarks"}
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, &InputError{File: path, Problem: "cannot read the schema", Fix: "check the path of the schema",
			Err: WithoutPath(err)}
	}
	s, err := parseSchema(raw, path)
	if err != nil {
		return nil, err
	}
	return s, s.readLists(path)
}

// ParseSchema checks the text of a schema file. Without a path there are no lists of codes. Errors are as for
// LoadSchema.
func ParseSchema(raw []byte) (*Schema, error) { return parseSchema(raw, "schema") }

// Raw is the text that the schema was read from, byte for byte: written to a file, it has the same SHA256.
func (s *Schema) Raw() []byte { return slices.Clone(s.raw) }

// Classes are the values of a categorical or binary label in cell order. It is nil if there is no label or the label
// is a number.
func (s *Schema) Classes() []string {
	if s.label < 0 {
		return nil
	}
	switch c := &s.Columns[s.label]; c.Kind {
	case Categorical:
		return slices.Clone(c.Categories)
	case Binary:
		return []string{"0", "1"}
	default:
		return nil
	}
}

// Positive is the index in Classes of the positive class: the one that the schema names, else 1 if there are two
// classes, else -1.
func (s *Schema) Positive() int { return s.positive }

// LabelColumn is the index of the label's column, or -1.
func (s *Schema) LabelColumn() int { return s.label }

// SiteColumn is the index of the column with role site, or -1.
func (s *Schema) SiteColumn() int { return s.site }

// UnitColumn is the index of the column with role unit, or -1.
func (s *Schema) UnitColumn() int { return s.unit }

// ColumnIndex is the index of a column by name, or -1.
func (s *Schema) ColumnIndex(name string) int {
	return slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == name })
}

// fewNames lists names of columns, but only the first of many.
func (s *Schema) fewNames() string {
	const most = 20
	var names []string
	for i := range s.Columns[:min(len(s.Columns), most)] {
		names = append(names, s.Columns[i].Name)
	}
	if len(s.Columns) > most {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}

// CheckUnit checks that `unit` can be the privacy unit of this schema's tables: "record" or the name of the column
// with role unit.
func (s *Schema) CheckUnit(unit string) error {
	switch {
	case unit == UnitRecord:
	case s.unit < 0:
		return fmt.Errorf("privacy unit %q: the schema has no column of role unit;"+
			" use %q or give that column role: unit", unit, UnitRecord)
	case unit != s.Columns[s.unit].Name:
		return fmt.Errorf("privacy unit %q: the schema's unit column is %q; use that name or %q",
			unit, s.Columns[s.unit].Name, UnitRecord)
	}
	return nil
}

// HasClasses reports whether the label is a class, which is not a feature.
func (s *Schema) HasClasses() bool {
	return s.label >= 0 && s.Columns[s.label].ClassCount() > 0
}
