package encode

import (
	"fmt"
	"slices"

	"github.com/conclave-dp/conclave/partition"
)

const (
	// patient is how often a record that breaks a constraint is redrawn before every constraint that can move it does
	// so.
	patient = 100
	// mostRedrawn bounds how often a record is redrawn.
	mostRedrawn = 10_000
)

// Keep draws an encoded record of each class, shape [len(classes), width]. No decoded record breaks a constraint of
// the schema. A record that breaks one with `broken: move` is moved, like rows at a node; others are redrawn with the
// same class. This depends only on the schema, so it costs no privacy.
func (e *Encoder) Keep(classes []int, draw func([]int) ([]float32, error)) ([]float32, error) {
	x, err := draw(classes)
	if err != nil || len(e.schema.Constraints()) == 0 {
		return x, err
	}
	w := e.width
	left := make([]int, len(classes))
	for i := range left {
		left[i] = i
	}
	for drawn := 1; ; drawn++ {
		broken, number := left[:0], 0
		for _, i := range left {
			n, err := e.settle(x[i*w:(i+1)*w], classes[i], drawn > patient)
			if err != nil {
				return nil, err
			}
			if n > 0 {
				broken, number = append(broken, i), n
			}
		}
		if left = broken; len(left) == 0 {
			return x, nil
		}
		if drawn == mostRedrawn {
			return nil, fmt.Errorf("%d rows were drawn %d times each, and always broke constraint %d of the schema "+
				"or another one; train the model with a larger epsilon, or ask for another class",
				len(left), drawn, number)
		}
		of := make([]int, len(left))
		for j, i := range left {
			of[j] = classes[i]
		}
		again, err := draw(of)
		if err != nil {
			return nil, err
		}
		for j, i := range left {
			copy(x[i*w:(i+1)*w], again[j*w:(j+1)*w])
		}
	}
}

// settle moves a record by the constraints that it breaks. It returns the number of a constraint that the decoded
// record still breaks, or 0. The requested class does not change.
func (e *Encoder) settle(record []float32, class int, always bool) (broken int, err error) {
	schema := e.schema
	cells, err := e.Decode(record, class, "")
	if err != nil {
		return 0, err
	}
	if broken = schema.Broken(cells); broken == 0 {
		return 0, nil
	}
	before := slices.Clone(cells)
	if schema.Move(cells, always); schema.HasClasses() {
		label := schema.LabelColumn()
		cells[label] = before[label]
	}
	if after := schema.Broken(cells); after > 0 {
		return after, nil
	}
	table := partition.NewTable(schema)
	table.Push(cells, "")
	copy(record, e.Encode(table).Row(0))
	// Encoding may drop decimals of a number, and so put it above its target.
	if cells, err = e.Decode(record, class, ""); err != nil {
		return 0, err
	}
	return schema.Broken(cells), nil
}
