package proposal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// Note tells which parts of a proposal come from the rows, whatever the sources of its bounds are.
const Note = "The schema takes from the rows: kinds, date formats, the file format, and which columns have empty " +
	"cells. No budget pays for this: review the schema as something that you publish."

// Options describe the table for which a schema is proposed.
type Options struct {
	Files      []string // of one table, with one header
	Dictionary string   // may be empty
	Label      string   // may be empty
	// Rows and Epsilon, both or neither, determine the number of prefixes of codes.
	Rows    int
	Epsilon float64
	Folder  string // that the schema will lie in
}

// Proposal is a proposed schema.
type Proposal struct {
	Name    string
	CSV     CSV
	Label   string
	Ignored []Ignored
	Columns []Column // in the order of the file
	// Read are the files that the proposal was made from: of the table, the dictionary, and lists of codes.
	Read []string
	// Unknown are columns of the dictionary that the table does not have.
	Unknown []string
}

// Ignored is a column that stays at the site, and the reason.
type Ignored struct{ Name, Why string }

// Propose reads the files once. Errors about files are *partition.InputError, without a cell.
func Propose(o Options) (*Proposal, error) {
	m := maker{folder: o.Folder}
	var err error
	if o.Dictionary != "" {
		if m.dictionary, err = readDictionary(o.Dictionary); err != nil {
			return nil, err
		}
	}
	if m.table, err = read(o.Files); err != nil {
		return nil, err
	}
	m.most = MostPrefixes(o.Rows, len(m.table.profiles), o.Epsilon)
	base, _, _ := strings.Cut(filepath.Base(o.Files[0]), ".")
	proposed := &Proposal{Name: base, CSV: m.table.csv, Read: m.table.files,
		Unknown: m.dictionary.without(m.table.profiles)}
	if m.dictionary != nil {
		proposed.Read = append(proposed.Read, m.dictionary.files()...)
	}
	var wrong []error
	for _, p := range m.table.profiles {
		c, err := m.column(p, p.name == o.Label)
		if err == nil {
			err = m.readable(&c)
		}
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case c.Kind == freeText:
			proposed.Ignored = append(proposed.Ignored, Ignored{c.Name, c.Remark})
		default:
			proposed.Columns = append(proposed.Columns, c)
		}
	}
	if len(wrong) > 0 {
		return nil, partition.JoinFirst(len(wrong), func(i int) error { return wrong[i] })
	}
	if n := len(proposed.YAML()); n > partition.MaxSchemaBytes {
		return nil, fmt.Errorf("the schema would have %d bytes, more than %d; list fewer or shorter categories, "+
			"labels and descriptions in the dictionary", n, partition.MaxSchemaBytes)
	}
	return proposed, proposed.SetLabel(o.Label)
}

// readable refuses a column with values of the dictionary that no schema can have.
func (m *maker) readable(c *Column) error {
	if _, listed := m.dictionary.of(c.Name); !listed || c.Kind == freeText || c.Source == partition.SourceRows ||
		len(c.Unfinished()) > 0 {
		return nil
	}
	// A schema of only an identifier is none.
	text := (&Proposal{Name: "p", Columns: []Column{{Name: c.Name + "2", Kind: kindBinary}, *c}}).YAML()
	if len(text) > partition.MaxSchemaBytes {
		return nil // nor is the whole schema shorter
	}
	_, err := partition.ParseSchema(text)
	if wrong := new(partition.InputError); errors.As(err, &wrong) {
		return &partition.InputError{File: m.dictionary.path, Column: c.Name, Problem: wrong.Problem, Fix: wrong.Fix}
	}
	return err
}

// SetLabel names the column that rows are generated for; empty for none. It fails if the column cannot be a
// label.
func (p *Proposal) SetLabel(name string) error {
	i := slices.IndexFunc(p.Columns, func(c Column) bool { return c.Name == name })
	switch {
	case name == "":
	case i < 0 && slices.ContainsFunc(p.Ignored, func(c Ignored) bool { return c.Name == name }):
		return fmt.Errorf("the label %q stays at the site, because it is free text, personal or empty; choose "+
			"another column", name)
	case i < 0:
		return fmt.Errorf("the label %q is not a column of the file; choose one of its columns", name)
	case p.Columns[i].Nullable:
		return fmt.Errorf("the label %q has empty cells; remove their rows, or choose another column", name)
	case p.Columns[i].Kind == kindIdentifier:
		return fmt.Errorf("the label %q is an identifier; choose another column", name)
	}
	p.Label = name
	return nil
}

// Unfinished is the number of columns with a field that a person must fill in.
func (p *Proposal) Unfinished() (n int) {
	for i := range p.Columns {
		if len(p.Columns[i].Unfinished()) > 0 {
			n++
		}
	}
	return n
}

// FromRows returns the columns whose categories come from the rows.
func (p *Proposal) FromRows() (names []string) {
	for _, c := range p.Columns {
		if c.Source == partition.SourceRows {
			names = append(names, c.Name)
		}
	}
	return names
}
