package proposal

import (
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// date takes the format of all cells, and the dictionary's bounds.
func (m *maker) date(c *Column, p *profile, e entry) error {
	c.Lower, c.Upper, c.Format = partition.Todo, partition.Todo, partition.Todo
	format := c.formatOf(p, e)
	c.Resolution = "day"
	if c.Kind == kindDatetime {
		c.Resolution = "hour"
	}
	if known, common := builtIn(p.name); common && known.variable.Date && e.lower == "" && e.upper == "" {
		c.Source, c.Lower, c.Upper = partition.SourceBuiltIn, known.unit.Lower, known.unit.Upper
		c.Doc = strings.TrimPrefix(c.Doc+"; limits "+known.variable.Source, "; ")
	}
	for _, bound := range []struct {
		in  string
		out *string
	}{{e.lower, &c.Lower}, {e.upper, &c.Upper}} {
		if bound.in == "" {
			continue
		}
		day, ok := schemaDate(bound.in, format)
		if !ok {
			return &partition.InputError{File: m.dictionary.path, Column: p.name, Problem: "a bound is not a date",
				Fix: "write it as YYYY-MM-DD"}
		}
		*bound.out, c.Source = day, partition.SourceDictionary
	}
	if c.Lower == partition.Todo || c.Upper == partition.Todo {
		c.hint("write the first and the last possible day, such as 2015-01-01, from the table's documentation")
	}
	return nil
}

// formatOf chooses format and kind, from the dictionary unless the cells contradict it. It returns the format
// that bounds of the dictionary may have.
func (c *Column) formatOf(p *profile, e entry) dateFormat {
	fit := closest(p.formats)
	if len(fit) > 0 {
		c.Kind = kindDate
		if dateFormats[fit[0]].time {
			c.Kind = kindDatetime
		}
	}
	format, stated := formatNamed(e.format)
	fits := p.others.iso == p.cells || // ISO 8601 is read with any format
		slices.ContainsFunc(p.formats, func(i int) bool { return dateFormats[i] == format })
	switch {
	case stated && fits:
		c.Format = e.format
	case len(fit) == 1:
		c.Format = dateFormats[fit[0]].format
		if !stated {
			return dateFormats[fit[0]]
		}
		c.remark("the dictionary says " + e.format + ", and the cells have this format")
	case len(fit) > 1:
		c.hint("the format is %s: the cells do not tell which", formatNames(fit))
	case p.others.zoned > 0 && p.others.times(p.cells):
		c.Kind = kindDatetime
		c.hint("some times have a zone other than UTC, which cannot be read: write all in UTC or without a zone, " +
			"then the format")
	case p.others.times(p.cells):
		c.Kind, c.Format = kindDatetime, isoFormat
		c.remark("generated times are written in this format, without zone and parts of seconds")
	case p.others.short == p.cells:
		c.hint("the cells have two-digit years: write four digits, then the format with YYYY")
	case stated:
		c.hint("the dictionary says %s, but not all cells have this format: correct the cells or the "+
			"dictionary", e.format)
	default:
		c.hint("write the format of the cells, such as YYYY-MM-DD; no common format matches all of them")
	}
	return format
}
