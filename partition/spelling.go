package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/partition/codes"
	"github.com/conclave-dp/conclave/partition/dates"
)

// spelling reads and writes the cells of a column whose written form differs from its kind in computations.
type spelling interface {
	// read parses a non-empty text and moves the cell into clip. exact refuses a text more precise than its cell,
	// such as a day in a column of months, and moves nothing.
	read(c *Column, text string, exact bool) (float64, *CellFault)
	// write appends a cell as in the given row; row is noRow for a single cell.
	write(c *Column, b []byte, cell float64, row int) []byte
	// describe says in a few public words what the column contains.
	describe(c *Column) string
}

// noRow is the row of a cell that is written alone.
const noRow = -1

// Declared is the column's kind in the schema. Kind is used for computation: a date is an Integer, a code is
// Categorical, and an identifier is Text.
func (c *Column) Declared() ColumnKind {
	if c.declared == "" {
		return c.Kind
	}
	return c.declared
}

// HasCell reports whether the column's cells have values to learn: identifiers and units have none.
func (c *Column) HasCell() bool { return c.Kind != Text && c.Role != RoleUnit }

// Spelling is the written form of a column whose declared kind differs from its kind in computations. Fields that do
// not apply are empty.
type Spelling struct {
	Start, Resolution, Format string // the moment of a date's cell 0 (ISO 8601), the unit of a cell, its format
	Codes                     string // the name of a list of codes
	Pattern                   string // of an identifier
}

// Spelling returns the column's written form.
func (c *Column) Spelling() Spelling {
	switch d := c.spelled.(type) {
	case *dateCells:
		start := time.Unix(int64(d.lower), 0).UTC().Format("2006-01-02T15:04:05")
		return Spelling{Start: start, Resolution: string(d.resolution), Format: d.layout.String()}
	case *codeCells:
		return Spelling{Codes: d.file}
	case identifierCells:
		return Spelling{Pattern: d.before + strings.Repeat("#", d.digits) + d.after}
	}
	return Spelling{}
}

// dateCells counts units of the resolution since lower.
type dateCells struct {
	layout       dates.Layout
	resolution   dates.Resolution
	lower, upper dates.Moment // both included
}

func (d *dateCells) read(c *Column, text string, exact bool) (float64, *CellFault) {
	at, err := d.layout.Read(text)
	switch {
	case errors.Is(err, dates.ErrNone):
		return 0, &CellFault{fmt.Sprintf("there is no such %s, expected %s", c.declared, d.describe(c)), fixCell, ""}
	case errors.Is(err, dates.ErrZone):
		return 0, &CellFault{"a time zone other than UTC", "write all times of the column in one zone, without the " +
			"zone; in a query of PostgreSQL: seen AT TIME ZONE 'Europe/Berlin'", ""}
	case err != nil && missingWord(text):
		return 0, faultMissing("a " + string(c.declared))
	case err != nil:
		return 0, &CellFault{fmt.Sprintf("not a %s as %s, expected %s", c.declared, d.layout.String(), d.describe(c)),
			fixCell, "correct the column's format in the schema"}
	case c.Clip == nil && (at < d.lower || at > d.upper):
		return 0, &CellFault{"outside the bounds, expected " + d.describe(c),
			fixCell, "add clip: [lo, hi] to the column, to move such dates to the edge"}
	}
	cell := float64(d.resolution.Count(d.lower, at))
	if exact && d.start(cell) != at {
		return 0, &CellFault{fmt.Sprintf("not the start of %s, the column's resolution", d.resolution.One()),
			"write the start of one", ""}
	}
	if c.Clip != nil && !exact {
		cell = min(max(cell, c.Clip[0]), c.Clip[1])
	}
	return cell, nil
}

// start is the first moment of a cell's unit.
func (d *dateCells) start(cell float64) dates.Moment { return d.resolution.Add(d.lower, int64(cell)) }

func (d *dateCells) write(_ *Column, b []byte, cell float64, _ int) []byte {
	return d.layout.Append(b, d.start(cell))
}

func (d *dateCells) describe(c *Column) string {
	lo, hi := string(d.layout.Append(nil, d.lower)), string(d.layout.Append(nil, d.upper))
	clipped := ""
	if c.Clip != nil {
		lo, hi, clipped = c.CellText(c.Clip[0]), c.CellText(c.Clip[1]), ", clipped"
	}
	return fmt.Sprintf("%s %s to %s, by %s%s", c.declared, lo, hi, d.resolution, clipped)
}

// codeCells are indexes of prefixes.
type codeCells struct {
	prefixes *codes.Prefixes
	file     string      // of the list, or empty
	list     *codes.List // nil if the list is not next to the schema
}

func buildCode(c *Column, in *columnFile) *schemaProblem {
	if len(in.Prefixes) == 0 {
		return bad("", "a column of codes needs prefixes",
			"list its public groups under prefixes:, as in [I20, I21, J]")
	}
	for i, prefix := range in.Prefixes {
		if strings.TrimSpace(prefix.text) != prefix.text {
			return bad(fmt.Sprintf("prefixes[%d]", i), "a prefix has spaces around it", "remove them")
		}
	}
	if in.Codes != "" && (in.Codes != filepath.Base(in.Codes) || !filepath.IsLocal(in.Codes)) {
		return bad("codes", "codes is not the name of a file next to the schema", "copy the list next to the schema")
	}
	if wrong := c.setCategories(in.Prefixes, "prefixes", "prefix", in.Names); wrong != nil {
		return wrong
	}
	c.Kind, c.spelled = Categorical, &codeCells{prefixes: codes.NewPrefixes(c.Categories), file: in.Codes}
	return nil
}

// readLists reads the lists of codes next to the schema's path.
func (s *Schema) readLists(path string) error {
	for i := range s.Columns {
		c := &s.Columns[i]
		d, is := c.spelled.(*codeCells)
		if !is || d.file == "" || d.list != nil { // columns of a repeat share one
			continue
		}
		file := filepath.Join(filepath.Dir(path), d.file)
		info, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is not a regular file") // opening a pipe would wait for its writer
		}
		var list []string
		if err == nil {
			list, err = readList(file)
		}
		if err != nil {
			return &InputError{File: file, Column: c.Name, Problem: "cannot use the list of codes",
				Fix: "correct the file, or remove it to check codes by their prefixes only", Err: WithoutPath(err)}
		}
		d.list = codes.NewList(d.prefixes, list)
		if at := d.list.Empty(); at >= 0 {
			return &InputError{File: path, Column: c.Name, Problem: fmt.Sprintf("no code of %s has the prefix %q and "+
				"no longer one", d.file, c.Categories[at]), Fix: "remove the prefix, or complete the list"}
		}
	}
	return nil
}

func readList(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return codes.Read(f)
}

// WithoutCodes names the columns whose list of codes is not next to the schema. Their cells are checked by prefix
// only, and written as prefixes.
func (s *Schema) WithoutCodes() (names []string) {
	for i := range s.Columns {
		if d, is := s.Columns[i].spelled.(*codeCells); is && d.file != "" && d.list == nil {
			names = append(names, s.Columns[i].Name)
		}
	}
	return names
}

func (d *codeCells) read(_ *Column, text string, exact bool) (float64, *CellFault) {
	code := strings.TrimSpace(text)
	// A prefix is also a code: rows that were written without the list have it.
	if at, is := d.prefixes.Is(code); is {
		return float64(at), nil
	}
	at, found := d.prefixes.Of(code)
	switch {
	case !found:
		return 0, &CellFault{"the cell is not one of the schema's codes",
			"correct the code", "add a prefix of it to the schema"}
	case exact:
		return 0, &CellFault{"longer than a prefix of the schema", "use a prefix", ""}
	case d.list != nil && !d.list.Has(code):
		return 0, &CellFault{"the cell is not in the list of codes " + d.file, "correct the code", "complete the list"}
	}
	return float64(at), nil
}

func (d *codeCells) write(c *Column, b []byte, cell float64, row int) []byte {
	if d.list == nil || row == noRow {
		return append(b, c.Categories[int(cell)]...)
	}
	return append(b, d.list.At(int(cell), row)...)
}

func (*codeCells) describe(c *Column) string { return "codes by prefix: " + c.words() }

// identifierCells have no values. They are written as running numbers between two texts, with a minimum number of
// digits.
type identifierCells struct {
	before, after string
	digits        int
}

// maxDigits bounds the digits in a pattern.
const maxDigits = 18

func buildIdentifier(c *Column, in *columnFile) *schemaProblem {
	d := identifierCells{}
	if in.Pattern != "" {
		if at := strings.IndexByte(in.Pattern, '#'); at >= 0 {
			d.before = in.Pattern[:at]
			d.after = strings.TrimLeft(in.Pattern[at:], "#")
			d.digits = len(in.Pattern) - len(d.before) - len(d.after)
		}
		if d.digits == 0 || d.digits > maxDigits || strings.ContainsAny(d.after, "#") ||
			strings.ContainsAny(in.Pattern, "\r\n") {
			return bad("pattern", fmt.Sprintf("a pattern needs one group of 1 to %d # for the digits of a running "+
				"number",
				maxDigits), "write it as P-######")
		}
	}
	c.Kind, c.spelled = Text, d
	return nil
}

func (identifierCells) read(*Column, string, bool) (float64, *CellFault) { return math.NaN(), nil }

func (d identifierCells) write(_ *Column, b []byte, _ float64, row int) []byte {
	if row == noRow {
		return b
	}
	return fmt.Appendf(b, "%s%0*d%s", d.before, d.digits, row+1, d.after)
}

func (identifierCells) describe(*Column) string { return "identifier, which is not learned" }

// Prefixes returns at most most prefixes of a public list of codes, for a column of kind code; see [codes.Choose].
func Prefixes(list []string, most int) []string { return codes.Choose(list, most) }
