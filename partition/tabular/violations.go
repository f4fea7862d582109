package tabular

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
)

// Violations is the error of a table with cells or rows that the schema does not allow: all of them, counted by
// column and kind. It holds row numbers and no values, and must not leave the site.
type Violations struct {
	File string
	// Rows is the number of rows read.
	Rows int
	// Found lists the kinds of violations in the order of the source's columns; those of whole rows come last.
	Found []Violation
	// Ended is why the rest of the source could not be read, nil if all of it was.
	Ended error
}

// Violation is one kind of error in the cells of a column, or in whole rows.
type Violation struct {
	Column    string `json:"column,omitempty"` // empty for whole rows
	Problem   string `json:"problem"`
	Fix       string `json:"fix"`
	SchemaFix string `json:"schema_fix,omitempty"` // see [partition.InputError]
	Times     int    `json:"times"`
	Rows      []int  `json:"rows"` // the first ones, from 1; none if a database counted
	line      int    // of the first, 0 if the source has no lines
}

const (
	mostRowsNamed  = 5  // for each violation
	mostKindsNamed = 20 // violations in an error's text
)

// Error is the line of an [partition.InputError] for a single violation, otherwise one line for each kind.
func (v *Violations) Error() string {
	if len(v.Found) == 1 && v.Found[0].Times == 1 && len(v.Found[0].Rows) == 1 && v.Ended == nil {
		return v.first().Error()
	}
	var b strings.Builder
	if v.File != "" {
		b.WriteString(v.File + ": ")
	}
	b.WriteString(v.heading())
	for i, f := range v.Found {
		if i == mostKindsNamed {
			fmt.Fprintf(&b, "\n  and %d kinds more, shown after these are fixed", len(v.Found)-i)
			break
		}
		b.WriteString("\n  " + f.Where() + "; " + f.Advice())
	}
	if v.Ended != nil {
		b.WriteString("\n  the rest could not be read: " + v.Ended.Error())
	}
	return b.String()
}

// Unwrap returns the first violation as an error of its own, and why the rest could not be read.
func (v *Violations) Unwrap() []error {
	if v.Ended != nil {
		return []error{v.first(), v.Ended}
	}
	return []error{v.first()}
}

func (v *Violations) first() *partition.InputError {
	f := slices.MinFunc(v.Found, func(a, b Violation) int { return slices.Compare(a.Rows, b.Rows) })
	e := &partition.InputError{File: v.File, Line: f.line, Column: f.Column, Problem: f.Problem,
		Fix: f.Fix, SchemaFix: f.SchemaFix}
	if len(f.Rows) > 0 {
		e.Row = f.Rows[0]
	}
	return e
}

// AskOperator words the advice for a site that shares its schema.
func (v *Violations) AskOperator() {
	for i := range v.Found {
		f := &v.Found[i]
		f.Fix, f.SchemaFix = partition.Advice(f.Fix, f.SchemaFix, true), ""
	}
}

// heading summarizes the errors: "14 cells cannot be read, in 3 columns:".
func (v *Violations) heading() string {
	cells, rows := 0, 0
	columns := map[string]bool{}
	for _, f := range v.Found {
		if f.Column == "" {
			rows += f.Times
			continue
		}
		cells += f.Times
		columns[f.Column] = true
	}
	var parts []string
	if cells > 0 {
		parts = append(parts, fmt.Sprintf("%s cannot be read, in %s", text.Several(cells, "cell"),
			text.Several(len(columns), "column")))
	}
	if rows > 0 {
		parts = append(parts, text.Several(rows, "row")+" cannot be taken")
	}
	return strings.Join(parts, "; ") + ":"
}

// Where says in which column and rows a problem occurs, how often, and what it is, but not how to fix it.
func (f *Violation) Where() string {
	where := "whole rows"
	if f.Column != "" {
		where = fmt.Sprintf("column %q", f.Column)
	}
	rows := make([]string, len(f.Rows))
	for i, row := range f.Rows {
		rows[i] = fmt.Sprint(row)
	}
	if len(rows) == 0 {
		return fmt.Sprintf("%s: %s %s", where, text.Several(f.Times, "time"), f.Problem)
	}
	named := strings.Join(rows, ", ")
	if f.Times > len(rows) {
		named += ", ..."
	}
	name := "rows"
	if f.Times == 1 {
		name = "row"
	}
	return fmt.Sprintf("%s: %s %s (%s %s)", where, text.Several(f.Times, "time"), f.Problem, name, named)
}

// Advice is what to do, for the owner of the schema.
func (f *Violation) Advice() string { return partition.Advice(f.Fix, f.SchemaFix, false) }

// kind identifies violations by the source's column (the number of columns for whole rows) and by what is wrong.
type kind struct {
	column  int
	problem string
}

// tally counts violations.
type tally map[kind]*Violation

// add counts one violation; line returns its line.
func (t tally) add(at int, column string, fault *partition.CellFault, row int, line func() int) {
	k := kind{at, fault.Problem}
	f := t[k]
	if f == nil {
		f = &Violation{Column: column, Problem: fault.Problem, Fix: fault.Fix, SchemaFix: fault.SchemaFix, line: line()}
		t[k] = f
	}
	f.Times++
	if len(f.Rows) < mostRowsNamed {
		f.Rows = append(f.Rows, row)
	}
}

// merge adds the violations of later rows, after the given numbers of rows and lines.
func (t tally) merge(later tally, rows, lines int) {
	for k, f := range later {
		for i := range f.Rows {
			f.Rows[i] += rows
		}
		if f.line > 0 {
			f.line += lines
		}
		if have := t[k]; have != nil {
			have.Times += f.Times
			have.Rows = append(have.Rows, f.Rows[:min(len(f.Rows), mostRowsNamed-len(have.Rows))]...)
			continue
		}
		t[k] = f
	}
}

// list sorts the violations by the columns of the source.
func (t tally) list() []Violation {
	kinds := make([]kind, 0, len(t))
	for k := range t {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.column, b.column), cmp.Compare(t[a].Rows[0], t[b].Rows[0]),
			cmp.Compare(a.problem, b.problem))
	})
	found := make([]Violation, len(kinds))
	for i, k := range kinds {
		found[i] = *t[k]
	}
	return found
}

// mixed counts the numbers in columns that mix decimal points and decimal commas, or where every comma may
// separate thousands: they are ambiguous.
func (b *Builder) mixed() {
	said := b.schema.CSV.Decimal == ","
	for i := range b.target {
		k := kind{column: i}
		points, commas, either := b.decimals[behindPoint][k], b.decimals[behindComma][k], b.decimals[behindEither][k]
		switch {
		case points != nil && (commas != nil || either != nil):
			k.problem = "a decimal point, but other numbers of the column have a decimal comma"
			points.Fix = "write all numbers of the column alike, without thousands separators"
			points.Problem, b.wrong[k] = k.problem, points
		case either != nil && commas == nil && !said:
			k.problem = "a comma that may be a decimal sign or a thousands separator"
			either.Fix = "write numbers without commas"
			either.SchemaFix = `write csv: {decimal: ","} in the schema if it is a decimal sign`
			either.Problem, b.wrong[k] = k.problem, either
		}
	}
}
