package postgres

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// statement is SQL built from the schema's names, quoted, and the site's query. All values are parameters.
type statement struct {
	params [][]byte
	source string // the text after from
	where  string
}

// from is the rest of a statement, starting with from.
func (s *statement) from() string { return " from " + s.source + s.where }

// cells replaces each row by rows v(at, what): its non-null cells by column.
func (s *statement) cells(values []string) string {
	where := s.where
	if where == "" {
		where = " where true"
	}
	return " from " + s.source + " cross join lateral (values " + strings.Join(values, ", ") + ") as v(at, what)" +
		where + " and v.what is not null"
}

// add makes a value a parameter of a type.
func (s *statement) add(value, as string) string {
	s.params = append(s.params, []byte(value))
	return fmt.Sprintf("$%d::%s", len(s.params), as)
}

func (s *statement) number(v float64) string { return s.add(floatText(v), "float8") }

func (s *statement) numbers(all []float64) string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = floatText(v)
	}
	return s.add("{"+strings.Join(texts, ",")+"}", "float8[]")
}

func (s *statement) wholes(all []int) string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = strconv.Itoa(v)
	}
	return s.add("{"+strings.Join(texts, ",")+"}", "int4[]")
}

func (s *statement) texts(all []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	var b strings.Builder
	b.WriteByte('{')
	for i, text := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + escape.Replace(text) + `"`)
	}
	b.WriteByte('}')
	return s.add(b.String(), "text[]")
}

func floatText(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// quoted quotes a name for SQL.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// from reads the query as q, with the dictionaries of some columns as d0, d1, and only the rows of the site.
func (p *Pushed) from(columns map[int]bool) *statement {
	// The line break ends a comment at the end of the query.
	s := &statement{source: "(" + strings.TrimRight(p.config.Query, "; \t\r\n") + "\n) as q"}
	site := p.schema.SiteColumn()
	bySite := p.options.Site != "" && site >= 0
	for i := range p.columns {
		c := &p.columns[i]
		if c.as != asText || !columns[i] && !(bySite && i == site) {
			continue
		}
		s.source += fmt.Sprintf(" left join unnest(%s, %s) as d%d(word, cell) on d%d.word = %s collate \"C\"",
			s.texts(c.words.texts), s.numbers(c.words.cells), i, i, c.text())
	}
	if bySite {
		at := slices.Index(p.schema.Columns[site].Categories, p.options.Site)
		s.where = " where " + p.cell(s, site) + " = " + s.number(float64(at))
	}
	return s
}

// cell is the parsed cell of a column as a float8, null if empty.
func (p *Pushed) cell(s *statement, column int) string {
	c := &p.columns[column]
	if c.as == asText {
		return fmt.Sprintf("d%d.cell", column) // the dictionary already clipped it
	}
	v := c.number()
	if c.Clip != nil {
		return fmt.Sprintf("case when %s is not null then least(greatest(%s, %s), %s) end", v, v, s.number(c.Clip[0]),
			s.number(c.Clip[1]))
	}
	return v
}

// unitOf is an expression that distinguishes units.
func (p *Pushed) unitOf() string {
	c := &p.columns[p.schema.UnitColumn()]
	switch c.as {
	case asNumber:
		return c.number()
	case asText:
		return fmt.Sprintf("d%d.cell", p.schema.UnitColumn())
	}
	// Reading rows also replaces line breaks.
	return "replace(" + c.text() + `, E'\r\n', E'\n') collate "C"`
}

// text is a cell's text as Read gets it; null if empty.
func (c *column) text() string {
	_, known := kinds[c.oid]
	switch {
	case c.oid == oidBool:
		return "case " + c.name + " when true then '1' when false then '0' end"
	case c.oid == oidChar || !known: // casts may change these texts: that of char(n) drops spaces
		return "nullif(format('%s', " + c.name + "), '')"
	}
	return "nullif(" + c.name + "::text, '')"
}

// number is a cell as the float64 that its text parses to; null if empty, NaN if it is not a number.
func (c *column) number() string {
	switch c.oid {
	case oidFloat8:
		return c.name
	case oidFloat4: // 1.1 is not 1.10000002384
		return c.name + "::text::float8"
	case oidNumeric: // out of float8's range it would be an error
		return fmt.Sprintf("case when abs(%s) > 1e300 or %s <> 0 and abs(%s) < 1e-300 then 'NaN'::float8 else "+
			"%s::float8 end", c.name, c.name, c.name, c.name)
	}
	return c.name + "::float8"
}

// fault is the problem of a number: null, or one of [faults].
func (c *column) fault(s *statement) string {
	v, empty := c.number(), "'empty'"
	if c.Nullable {
		empty = "null"
	}
	when := fmt.Sprintf("case when %s is null then %s when %s in ('NaN', 'Infinity', '-Infinity') then 'infinite'",
		c.name, empty, v)
	if c.Kind != partition.Continuous {
		when += fmt.Sprintf(" when %s <> trunc(%s) then 'part'", v, v)
	}
	if c.Clip == nil {
		when += fmt.Sprintf(" when %s < %s or %s > %s then 'outside'", v, s.number(c.Lower), v, s.number(c.Upper))
	}
	return when + " end"
}

// faults are the cells that stand for what is wrong with numbers, in the words of the column.
func (c *column) faultOf(what string) *partition.CellFault {
	var fault *partition.CellFault
	switch what {
	case "empty":
		_, fault = c.ParseCell("")
	case "part":
		_, fault = c.NumberCell(c.Lower + 0.5)
	case "outside":
		_, fault = c.NumberCell(math.Floor(c.Lower) - 1)
	}
	if fault == nil {
		_, fault = c.ParseCell("inf")
		fault.Fix = "write a null for a missing value, and round numbers beyond 1e300 and within 1e-300 of 0"
	}
	return fault
}
