package tabular

import (
	"fmt"
	"io"

	"github.com/conclave-dp/conclave/partition"
)

// WriteWeightedCSV is WriteCSV with a last column WeightColumn, whose numbers have
// as many digits as bring them back exactly; nil writes no such column. The weights
// must have a mean of 1 (see MeanOne), one for each row, none negative. It fails
// with ErrWeightColumn for a schema that has such a column itself, and writes
// nothing then.
func WriteWeightedCSV(w io.Writer, t *partition.Table, weights []float64) error {
	if weights == nil {
		return WriteCSV(w, t)
	}
	if err := t.CheckWeights(weights); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return WriteCSV(w, t, partition.ExtraColumn{Name: partition.WeightColumn, Values: weights})
}

// checkWeights refuses weights that were read and cannot be meant. A weight is of a
// synthetic row, but its value is not repeated here either.
func (b *Builder) checkWeights(weights []float64) *partition.InputError {
	some := weights == nil
	for i, w := range weights {
		if w < 0 {
			b.row = i + 1
			return b.fail(partition.WeightColumn, "the weight is negative", "give every row a weight of at least 0")
		}
		some = some || w > 0
	}
	if !some {
		b.row = 0
		return b.fail(partition.WeightColumn, "all weights are 0",
			"give one row a weight above 0 at least, or remove the column")
	}
	return nil
}
