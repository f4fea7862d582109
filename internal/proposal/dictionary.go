package proposal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/partition"
)

// entry is the part of a data dictionary about a column; missing facts are empty.
type entry struct {
	name         string
	kind         string // a kind of schemas, or freeText
	lower, upper string // numbers, or days
	categories   []string
	names        []string // words for the categories
	format       string   // of dates, in the words of a schema
	pattern      string   // of identifiers
	codes        string   // the path of a list of codes
	doc          string   // description and unit
	wrong        error    // why its line cannot be read
	personal     bool     // its cells identify persons, and stay at the site
}

// dictionary is a data dictionary: public knowledge of a table's columns.
type dictionary struct {
	path    string
	entries map[string]entry // by key
}

// maxDictionary bounds the size of a dictionary, in bytes.
const maxDictionary = 16 << 20

// readDictionary reads a data dictionary and detects its form from its content. Errors are
// *partition.InputError, and report all columns at once.
func readDictionary(path string) (*dictionary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &partition.InputError{File: path, Problem: "cannot read the dictionary",
			Fix: "check path and permissions", Err: partition.WithoutPath(err)}
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxDictionary+1))
	if err != nil {
		return nil, &partition.InputError{File: path, Problem: "cannot read the dictionary", Fix: "copy it again",
			Err: partition.WithoutPath(err)}
	}
	return parseDictionary(raw, path)
}

// parseDictionary is readDictionary for bytes; path is for errors and for lists of codes.
func parseDictionary(raw []byte, path string) (*dictionary, error) {
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	wrong := func(problem, fix string) (*dictionary, error) {
		return nil, &partition.InputError{File: path, Problem: problem, Fix: fix}
	}
	if len(raw) > maxDictionary || !utf8.Valid(raw) {
		return wrong("not a text file in UTF-8 of reasonable size", "save the dictionary as UTF-8")
	}
	var entries []entry
	var err error
	if text := bytes.TrimSpace(raw); len(text) > 0 && text[0] == '{' {
		entries, err = readJSON(text)
	} else {
		entries, err = readCSVDictionary(raw)
	}
	if err != nil {
		return wrong(err.Error(), "")
	}
	d := &dictionary{path: path, entries: make(map[string]entry, len(entries))}
	var all []error
	for _, e := range entries {
		if wrong := e.check(); wrong != nil {
			all = append(all, &partition.InputError{File: path, Column: e.name, Problem: wrong.Error(),
				Fix: "correct the dictionary"})
		} else if _, twice := d.entries[key(e.name)]; twice {
			all = append(all, &partition.InputError{File: path, Column: e.name, Problem: "the column appears twice",
				Fix: "remove or rename one; capitals and separators do not count"})
		}
		if e.codes != "" && !filepath.IsAbs(e.codes) {
			e.codes = filepath.Join(filepath.Dir(path), e.codes)
		}
		d.entries[key(e.name)] = e
	}
	if len(all) > 0 {
		return nil, partition.JoinFirst(len(all), func(i int) error { return all[i] })
	}
	if len(d.entries) == 0 {
		return wrong("the dictionary has no column", "list the table's columns in it")
	}
	return d, nil
}

// of returns the dictionary's entry for a column.
func (d *dictionary) of(column string) (e entry, ok bool) {
	if d == nil {
		return e, false
	}
	e, ok = d.entries[key(column)]
	return e, ok
}

// files returns the dictionary's file and the lists of codes that it names.
func (d *dictionary) files() []string {
	all := []string{d.path}
	for _, e := range d.entries {
		if e.codes != "" {
			all = append(all, e.codes)
		}
	}
	return all
}

// without returns the names of columns that a table does not have, in alphabetical order.
func (d *dictionary) without(profiles []*profile) (names []string) {
	if d == nil {
		return nil
	}
	there := map[string]bool{}
	for _, p := range profiles {
		there[key(p.name)] = true
	}
	for key, e := range d.entries {
		if !there[key] {
			names = append(names, e.name)
		}
	}
	slices.Sort(names)
	return names
}

// readJSON reads JSON with fields as Frictionless, and JSON with columns as metadata of SDV.
func readJSON(text []byte) ([]entry, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(text, &top); err != nil {
		return nil, fmt.Errorf("not valid JSON; correct it: %w", err)
	}
	has := func(name string) bool { return top[name] != nil && string(top[name]) != "null" }
	switch {
	case has("fields"), has("resources"), has("schema"):
		return readFrictionless(text)
	case has("columns"), has("tables"):
		return readSDV(text)
	}
	return nil, errors.New("neither fields nor columns are in the JSON; use a Frictionless table schema, metadata " +
		"of SDV, or a CSV file with the columns name, type, lower and upper")
}

// check refuses values that a schema's column cannot have. Spaces around the name are removed, and the description
// becomes one line.
func (e *entry) check() error {
	e.name = strings.TrimSpace(e.name)
	e.doc = strings.Join(strings.FieldsFunc(e.doc, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	switch {
	case e.wrong != nil:
		return e.wrong
	case e.name == "":
		return errors.New("a column has no name")
	case !oneLine(e.name):
		return errors.New("the name has a line break or a control character")
	}
	seen := map[string]bool{}
	for _, c := range e.categories {
		if c == "" || seen[c] {
			return errors.New("the categories have an empty one or a duplicate")
		}
		seen[c] = true
	}
	for _, field := range []struct {
		name  string
		texts []string
	}{{"a category", e.categories}, {"a label of a category", e.names}, {"the format", []string{e.format}},
		{"the pattern", []string{e.pattern}}, {"the path of codes", []string{e.codes}}} {
		if slices.ContainsFunc(field.texts, func(text string) bool { return !oneLine(text) }) {
			return fmt.Errorf("%s has a line break or a control character", field.name)
		}
	}
	if e.isDate() {
		return nil // in a schema's spelling of days; they are read when the format of the column is known
	}
	limits := [2]float64{math.Inf(-1), math.Inf(1)}
	for i, bound := range []string{e.lower, e.upper} {
		if bound == "" {
			continue
		}
		var wrong *partition.CellFault
		if limits[i], wrong = partition.ParseNumber(bound); wrong != nil {
			return errors.New("lower and upper must be plain numbers, or give the type date")
		}
	}
	if !(limits[0] < limits[1]) {
		return errors.New("lower must be below upper")
	}
	return nil
}

// numeric tells whether the dictionary says numbers, without saying whether they are whole.
func (e *entry) numeric() bool {
	return e.kind == anyNumber ||
		e.kind == "" && (e.lower != "" || e.upper != "") && len(e.categories) == 0 && e.codes == ""
}

func (e *entry) isDate() bool { return e.kind == kindDate || e.kind == kindDatetime }

// oneLine tells whether a text can stand in a line of a schema.
func oneLine(text string) bool { return !strings.ContainsFunc(text, unicode.IsControl) }
