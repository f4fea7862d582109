package proposal

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// Note says what of a proposal comes from the rows, whatever the sources of its bounds are.
const Note = "From the rows come kinds, formats of dates, how the file is written, and which columns have empty " +
	"cells. No budget pays for that: read the schema as something that you publish."

// Options say what a schema is proposed for.
type Options struct {
	Files      []string // of one table, with one header
	Dictionary string   // may be empty
	Label      string   // may be empty
	// Rows and Epsilon, both or neither, are what prefixes of codes are chosen for.
	Rows    int
	Epsilon float64
	Folder  string // that the schema will lie in
}

// Proposal is a schema that is proposed.
type Proposal struct {
	Name    string
	CSV     CSV
	Label   string
	Ignored []Ignored
	Columns []Column // in the order of the file
}

// Ignored is a column that stays at the site, and why.
type Ignored struct{ Name, Why string }

// Propose reads the files once. Errors are *partition.InputError.
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
	proposed := &Proposal{Name: base, CSV: m.table.csv, Label: o.Label}
	for _, p := range m.table.profiles {
		c, err := m.column(p, p.name == o.Label)
		switch {
		case err != nil:
			return nil, err
		case c.Kind == freeText:
			proposed.Ignored = append(proposed.Ignored, Ignored{c.Name, c.Left})
		default:
			proposed.Columns = append(proposed.Columns, c)
		}
	}
	return proposed, proposed.checkLabel(o.Files[0])
}

// CanBeLabel tells whether a column can be what rows are generated for.
func (c *Column) CanBeLabel() bool { return !c.Nullable && c.Kind != kindIdentifier }

func (p *Proposal) checkLabel(file string) error {
	if p.Label == "" {
		return nil
	}
	wrong := func(problem, fix string) error {
		return &partition.InputError{File: file, Column: p.Label, Problem: problem, Fix: fix}
	}
	i := slices.IndexFunc(p.Columns, func(c Column) bool { return c.Name == p.Label })
	switch {
	case i < 0 && slices.ContainsFunc(p.Ignored, func(c Ignored) bool { return c.Name == p.Label }):
		return wrong("the label is free text or empty", "name another column with --label")
	case i < 0:
		return wrong("the label is not a column of the file", "name one of its columns with --label")
	case p.Columns[i].Nullable:
		return wrong("the label has empty cells", "remove their rows, or name another column with --label")
	case !p.Columns[i].CanBeLabel():
		return wrong("the label is an identifier", "name another column with --label")
	}
	return nil
}

// Unfinished is how many columns have something that a person must fill in.
func (p *Proposal) Unfinished() (n int) {
	for i := range p.Columns {
		if len(p.Columns[i].Unfinished()) > 0 {
			n++
		}
	}
	return n
}

// FromRows names the columns whose categories come from the rows.
func (p *Proposal) FromRows() (names []string) {
	for _, c := range p.Columns {
		if c.Source == partition.SourceRows {
			names = append(names, c.Name)
		}
	}
	return names
}
