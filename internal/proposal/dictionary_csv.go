package proposal

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// fieldsOf are the columns of a dictionary in CSV, each with the names that it may have in the header.
var fieldsOf = map[string][]string{
	"name":        {"name", "column", "variable", "field"},
	"type":        {"type", "kind"},
	"lower":       {"lower", "min", "minimum"},
	"upper":       {"upper", "max", "maximum"},
	"categories":  {"categories", "values", "enum"},
	"description": {"description", "doc", "label"},
	"unit":        {"unit", "units"},
	"format":      {"format"},
	"pattern":     {"pattern"},
	"codes":       {"codes"},
}

// types are the words for kinds in dictionaries.
var types = map[string]string{
	"": "", "integer": kindInteger, "int": kindInteger, "whole": kindInteger,
	"continuous": kindContinuous, "number": kindContinuous, "numeric": kindContinuous, "float": kindContinuous,
	"decimal": kindContinuous, "real": kindContinuous, "double": kindContinuous,
	"categorical": kindCategorical, "category": kindCategorical, "enum": kindCategorical, "factor": kindCategorical,
	"nominal": kindCategorical, "ordinal": kindCategorical, "string": "", "any": "",
	"binary": kindBinary, "boolean": kindBinary, "bool": kindBinary,
	"date": kindDate, "datetime": kindDatetime, "timestamp": kindDatetime,
	"code": kindCode, "identifier": kindIdentifier, "id": kindIdentifier, "text": freeText, "freetext": freeText,
}

// readCSVDictionary reads a dictionary with a line for each column. Categories are separated by |.
func readCSVDictionary(raw []byte) (entries []entry, err error) {
	r := csv.NewReader(bytes.NewReader(raw))
	r.Comma = delimiterOf(raw[:min(len(raw), sampleBytes)])
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the dictionary is empty; it needs a line for each column of the table")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot be read as CSV; correct that line: %w", err)
	}
	at := map[string]int{}
	for i, cell := range header {
		for field, names := range fieldsOf {
			if _, twice := at[field]; !twice && slices.Contains(names, key(cell)) {
				at[field] = i
			}
		}
	}
	if _, named := at["name"]; !named || len(at) < 2 {
		return nil, errors.New("the first line of the dictionary has no column name; use the columns name, type, " +
			"lower, upper, categories, description, unit, format, pattern and codes; only name is required")
	}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot be read as CSV; correct that line: %w", err)
		}
		cell := func(field string) string {
			if i, ok := at[field]; ok {
				return strings.TrimSpace(record[i])
			}
			return ""
		}
		e := entry{name: cell("name"), lower: bound(cell("lower"), r.Comma), upper: bound(cell("upper"), r.Comma),
			format: cell("format"), pattern: cell("pattern"), codes: cell("codes"),
			doc: documented(cell("description"), cell("unit"))}
		kind, known := types[strings.ToLower(cell("type"))]
		if e.kind = kind; !known {
			line, _ := r.FieldPos(0)
			e.wrong = fmt.Errorf("line %d: unknown type %.60q; use integer, continuous, categorical, binary, date, "+
				"datetime, code, identifier or text, or leave it empty", line, cell("type"))
		}
		if text := cell("categories"); text != "" {
			for category := range strings.SplitSeq(text, "|") {
				e.categories = append(e.categories, strings.TrimSpace(category))
			}
		}
		entries = append(entries, e)
	}
}

// bound converts a number to a schema's form. If commas are not the delimiter, they may be the decimal point.
func bound(cell string, delimiter rune) string {
	if form, _ := numberForm(cell); form == commaNumber && delimiter != ',' {
		return strings.Replace(cell, ",", ".", 1)
	}
	return cell
}

// documented makes a remark from a description and a unit.
func documented(description, unit string) string {
	if unit == "" || description == "" {
		return description + unit
	}
	return description + ", " + unit
}
