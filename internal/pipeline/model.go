package pipeline

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/conclave-dp/conclave/partition"
)

// MaxRows bounds the rows drawn at once, since they are in memory.
const MaxRows = 10_000_000

// Model is what a student has learned: it draws rows of a schema. Sampling from it is
// post-processing and costs nothing.
type Model interface {
	Schema() *partition.Schema
	// Sample draws a table of `rows` rows that meet all conditions and break no constraint of the schema. A
	// unit column gets a made-up unit in each row; see [partition.Column.MadeUpUnit]. Every model supports a
	// class of the label as a condition; the error for an unsupported one matches [ErrCondition].
	Sample(rows int, where []Condition, rng *rand.Rand) (*partition.Table, error)
	// Save writes the model's folder with [SaveModel].
	Save(dir string) error
}

// ModelKind is a kind of model, with the function that loads a saved one.
type ModelKind struct {
	// Name is the kind in model.json.
	Name string
	Load func(*SavedModel) (Model, error)
}

// ErrCondition means that a model does not support a condition.
var ErrCondition = errors.New("no such rows")

// Condition restricts the rows that are drawn: "sex=F", "age>60".
type Condition struct {
	Column string
	// Relation is one of =, <, <=, > and >=.
	Relation string
	// Value is a cell as in a CSV file.
	Value string
}

// ParseCondition reads a condition. The model checks whether such rows exist.
func ParseCondition(text string) (Condition, error) {
	at := strings.IndexAny(text, "=<>")
	if at < 1 {
		return Condition{}, fmt.Errorf("%q is not a condition; write column=value, column<value or column>value", text)
	}
	switch column := text[:at]; {
	case strings.HasSuffix(column, "!"):
		return Condition{}, fmt.Errorf("%q: there is no !=; ask for each wanted value with column=value", text)
	case strings.TrimSpace(column) != column:
		return Condition{}, fmt.Errorf("%q: there are spaces around the sign; leave them out: column%svalue", text,
			text[at:at+1])
	}
	relation := text[at : at+1]
	if relation != "=" && strings.HasPrefix(text[at+1:], "=") {
		relation += "="
	}
	return Condition{Column: text[:at], Relation: relation, Value: text[at+len(relation):]}, nil
}

// On returns the place of the condition's column in a schema, and whether a cell meets it.
func (c Condition) On(schema *partition.Schema) (column int, meets func(cell float64) bool, err error) {
	if column = schema.ColumnIndex(c.Column); column < 0 || !schema.Columns[column].HasCell() {
		return 0, nil, fmt.Errorf("%w: %s: the schema has no such column", ErrCondition, c)
	}
	want, fault := schema.Columns[column].ParseValue(c.Value)
	if fault != nil {
		return 0, nil, fmt.Errorf("%w: %s: %s", ErrCondition, c, fault.Problem)
	}
	if math.IsNaN(want) && c.Relation != "=" {
		return 0, nil, fmt.Errorf("%w: %s: an empty value has no order; use =", ErrCondition, c)
	}
	if kind := schema.Columns[column].Kind; c.Relation != "=" &&
		(kind == partition.Categorical || kind == partition.Binary) {
		return 0, nil, fmt.Errorf("%w: %s: values of this column have no order; use =", ErrCondition, c)
	}
	if lo, hi := schema.Columns[column].Range(); want < lo || want > hi {
		of := &schema.Columns[column]
		return 0, nil, fmt.Errorf("%w: %s: the value is outside of the column's range, %s to %s", ErrCondition, c,
			of.CellText(lo), of.CellText(hi))
	}
	return column, func(cell float64) bool {
		switch c.Relation {
		case "=":
			return cell == want || math.IsNaN(cell) && math.IsNaN(want)
		case "<":
			return cell < want
		case "<=":
			return cell <= want
		case ">":
			return cell > want
		default:
			return cell >= want
		}
	}, nil
}

func (c Condition) String() string { return c.Column + c.Relation + c.Value }
