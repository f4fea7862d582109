package proposal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// sdvTable is the Synthetic Data Vault's metadata of one table (METADATA_SPEC_VERSION V1, or SINGLE_TABLE_V1 of
// older versions, which is the same).
type sdvTable struct {
	Columns map[string]struct {
		Type           string `json:"sdtype"`
		Representation string `json:"computer_representation"`
		Format         string `json:"datetime_format"`
		Personal       bool   `json:"pii"`
	} `json:"columns"`
}

// sdvText are sdtypes of cells that identify a person, and that no model learns. Other unknown types are
// inferred from the rows.
var sdvText = []string{"address", "email", "name", "first_name", "last_name", "phone_number", "ssn", "text",
	"street_address", "license_plate", "ipv4_address", "ipv6_address", "iban", "credit_card_number",
	"user_agent_string"}

// readSDV reads metadata of one table; it has kinds and no bounds.
func readSDV(text []byte) (entries []entry, err error) {
	var file struct {
		sdvTable
		Tables map[string]sdvTable `json:"tables"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("not metadata of SDV; correct it: %w", err)
	}
	table := file.sdvTable
	if len(file.Tables) > 1 {
		return nil, errors.New("the metadata has several tables; keep only the one of the file")
	}
	for _, only := range file.Tables {
		table = only
	}
	for name, column := range table.Columns {
		// Identifiers are read and forgotten: none of their cells are written either.
		e := entry{name: name, personal: column.Personal && column.Type != "id"}
		switch column.Type {
		case "numerical":
			e.kind = anyNumber
			switch {
			case strings.HasPrefix(column.Representation, "Float"):
				e.kind = kindContinuous
			case strings.HasPrefix(column.Representation, "Int"), strings.HasPrefix(column.Representation, "UInt"):
				e.kind = kindInteger
			}
		case "categorical":
			e.kind = kindCategorical
		case "boolean":
			e.kind = kindBinary
		case "datetime":
			e.kind = kindDate
			if f, ok := fromStrftime(column.Format); ok {
				e.format = f.format
				if f.time {
					e.kind = kindDatetime
				}
			}
		case "id":
			e.kind = kindIdentifier
		default:
			if slices.Contains(sdvText, column.Type) {
				e.kind = freeText
			}
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return entries, nil
}

// frictionlessSchema is a Frictionless table schema, alone or in a resource or package.
type frictionlessSchema struct {
	Fields     []frictionlessField `json:"fields"`
	PrimaryKey any                 `json:"primaryKey"`
}

type frictionlessField struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Unit        string `json:"unit"`
	Constraints struct {
		Minimum any   `json:"minimum"`
		Maximum any   `json:"maximum"`
		Enum    []any `json:"enum"`
	} `json:"constraints"`
	Categories []any `json:"categories"` // of version 2: values, or objects with value and label
}

// readFrictionless reads the fields of a table schema.
func readFrictionless(text []byte) (entries []entry, err error) {
	var file struct {
		frictionlessSchema
		Schema    frictionlessSchema `json:"schema"`
		Resources []struct {
			Schema frictionlessSchema `json:"schema"`
		} `json:"resources"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // 1.50 is a category of its own
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("not a Frictionless table schema; correct it: %w", err)
	}
	table := file.frictionlessSchema
	switch {
	case len(file.Resources) > 1:
		return nil, errors.New("the package has several resources; keep only the one of the file")
	case len(file.Resources) == 1:
		table = file.Resources[0].Schema
	case len(file.Schema.Fields) > 0:
		table = file.Schema
	}
	for _, field := range table.Fields {
		e, wrong := field.entry()
		e.wrong = wrong
		if field.Name == table.PrimaryKey {
			e.kind = kindIdentifier
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (f *frictionlessField) entry() (e entry, wrong error) {
	e = entry{name: f.Name, doc: documented(cmp.Or(f.Title, f.Description), f.Unit)}
	values := f.Constraints.Enum
	if len(values) == 0 {
		values = f.Categories
	}
	for _, value := range values {
		if labelled, ok := value.(map[string]any); ok {
			value = labelled["value"]
			e.names = append(e.names, scalar(labelled["label"]))
		}
		e.categories = append(e.categories, scalar(value))
	}
	if len(e.names) != len(e.categories) || slices.Contains(e.names, "") {
		e.names = nil
	}
	e.lower, e.upper = scalar(f.Constraints.Minimum), scalar(f.Constraints.Maximum)
	switch f.Type {
	case "integer", "year":
		e.kind = kindInteger
	case "number":
		e.kind = kindContinuous
	case "boolean":
		e.kind = kindBinary
	case "date":
		e.kind, e.format = kindDate, "YYYY-MM-DD"
	case "datetime":
		e.kind, e.format = kindDatetime, "YYYY-MM-DDThh:mm:ss"
	case "", "string", "any":
	default:
		return e, fmt.Errorf("type %.60q has no kind in a schema; use string, integer, number, boolean, date or "+
			"datetime", f.Type)
	}
	if !e.isDate() || f.Format == "" || f.Format == "default" {
		return e, nil
	}
	format, known := fromStrftime(strings.TrimPrefix(f.Format, "fmt:"))
	if e.format = format.format; !known && f.Format != "any" {
		return e, fmt.Errorf("format %.60q is unknown; use one of %%Y, %%m, %%d, %%H, %%M and %%S, such as %%d.%%m.%%Y",
			f.Format)
	}
	return e, nil
}

// scalar returns a number as spelled, or a text; empty for anything else.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return fmt.Sprint(v)
	}
	return ""
}
