package partition

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Source says where the bounds or categories of a column come from. If it is empty, the author of the schema is
// responsible for them.
type Source string

// The sources of bounds and categories.
const (
	SourceDictionary Source = "dictionary" // a data dictionary of the table
	SourceBuiltIn    Source = "built-in"   // the list of common variables of package proposal
	SourceRows       Source = "rows"       // the rows themselves: not covered by the guarantee
)

// Todo marks a part of a schema that is still to be written. Such a schema is an error.
const Todo = "TODO"

// ColumnsFromRows names the columns whose bounds or categories come from the rows. No guarantee covers these.
func (s *Schema) ColumnsFromRows() (names []string) {
	for i := range s.Columns {
		if s.Columns[i].Source == SourceRows {
			names = append(names, s.Columns[i].Name)
		}
	}
	return names
}

// sourceOf parses the field of a column.
func sourceOf(text string) (Source, *schemaProblem) {
	switch s := Source(text); s {
	case "", SourceDictionary, SourceBuiltIn, SourceRows:
		return s, nil
	}
	return "", bad("source", fmt.Sprintf("unknown source %q", text),
		"use dictionary, built-in or rows, or leave it out")
}

// checkFinished finds every TODO of a schema at once, before a field of another type fails on the first one. Columns'
// names and remarks may be anything.
func checkFinished(text []byte) *schemaProblem {
	if !bytes.Contains(text, []byte(Todo)) {
		return nil
	}
	var file struct {
		Label   any              `yaml:"label"`
		Columns []map[string]any `yaml:"columns"`
	}
	if yaml.Unmarshal(text, &file) != nil {
		return nil // the strict decoder reports the problem
	}
	var open []string
	first := ""
	add := func(path, what string) {
		if len(open) == 0 {
			first = path
		}
		open = append(open, what)
	}
	if file.Label == Todo {
		add("$.label", "the label")
	}
	for i, column := range file.Columns {
		var fields []string
		for field, value := range column {
			if value == Todo && field != "name" && field != "doc" {
				fields = append(fields, field)
			}
		}
		if len(fields) > 0 {
			slices.Sort(fields)
			add(fmt.Sprintf("$.columns[%d]", i), fmt.Sprintf("%v (%s)", column["name"], strings.Join(fields, ", ")))
		}
	}
	if len(open) == 0 {
		return nil
	}
	return bad(first, "there is still TODO in "+strings.Join(open, ", "),
		"write what is known publicly, not from the rows, and remove source: TODO")
}
