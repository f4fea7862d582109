package proposal

import (
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// table is the result of one pass over the files.
type table struct {
	csv      CSV
	rows     int
	profiles []*profile
	files    []string
}

// read reads the files once. All have the same header; a folder or a pattern of names means its parts.
func read(paths []string) (*table, error) {
	paths, err := parts(paths)
	if err != nil {
		return nil, err
	}
	t := &table{}
	for _, path := range paths {
		files, err := tabular.Files(path)
		if err != nil {
			return nil, err
		}
		t.files = append(t.files, files...)
	}
	var form textForm
	var first *source
	for _, path := range paths {
		s, err := open(path)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = s
			for _, name := range s.header {
				form.add(name)
				t.profiles = append(t.profiles, newProfile(name))
			}
		}
		err = t.gather(first, s, &form)
		s.close()
		if err != nil {
			return nil, err
		}
	}
	if t.rows == 0 {
		return nil, first.fail("there is a header but no row", "check that the whole file was copied", nil)
	}
	if t.csv, err = dialect(first.delimiter, form, t.profiles); err != nil {
		return nil, &partition.InputError{File: first.name, Problem: err.Error()}
	}
	return t, t.finish(first)
}

// parts are the files that paths name.
func parts(paths []string) (all []string, err error) {
	for _, path := range paths {
		if tabular.Sheet(path) != "" {
			all = append(all, path)
			continue
		}
		files, err := tabular.Files(path)
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	return all, nil
}

// gather adds the rows of a file to the profiles.
func (t *table) gather(first, s *source, form *textForm) error {
	if !slices.Equal(s.header, first.header) || s.delimiter != first.delimiter {
		return s.fail("the header is not that of "+first.name, "give files with the same columns in the same "+
			"order", nil)
	}
	for {
		record, err := s.next()
		if record == nil {
			return err
		}
		t.rows++
		for i, cell := range record {
			form.add(cell)
			t.profiles[i].add(cell)
		}
	}
}

// finish converts names and values to UTF-8, and refuses names that a schema cannot have.
func (t *table) finish(first *source) error {
	named := 0
	for _, p := range t.profiles {
		if p.name = cleanName(t.csv.text(p.name)); p.name != "" {
			named++
		}
	}
	if named == 1 && len(t.profiles) > 2 {
		return &partition.InputError{File: first.name, Line: 1, Fix: removeTitle,
			Problem: fmt.Sprintf("only one column of %d has a name", len(t.profiles))}
	}
	seen := map[string]bool{}
	for i, p := range t.profiles {
		fail := func(problem, fix string) error {
			return &partition.InputError{File: first.name, Line: 1, Problem: problem, Fix: fix}
		}
		switch {
		case p.name == "":
			return fail(fmt.Sprintf("column %d of the header has no name", i+1), "give it one, or remove the column")
		case isCell(p.name):
			return fail(fmt.Sprintf("column %d of the header is a number or a date, not a name", i+1),
				"start the file with a line of column names")
		case seen[p.name]:
			return fail(fmt.Sprintf("column %d of the header has the name of an earlier one", i+1), "rename one")
		case !oneLine(p.name):
			return fail(fmt.Sprintf("the name of column %d has a line break or a control character", i+1), "rename it")
		}
		seen[p.name] = true
		if t.csv.Encoding == "" {
			continue
		}
		values := make(map[string]int, len(p.values))
		for value, n := range p.values {
			values[t.csv.text(value)] += n
		}
		p.values = values
	}
	return nil
}

// isCell tells whether a header cell surely comes from a row. A schema must not repeat it.
func isCell(name string) bool {
	f, _ := numberForm(name)
	return f != noNumber || len(keepFormats(allFormats(), name)) > 0
}
