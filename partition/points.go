package partition

import (
	"fmt"
	"math"
	"slices"
)

const (
	// maxSpikes bounds those of a column: each gets a cell in every table of the column.
	maxSpikes = 32
	// maxPoints bounds spikes and what constraints name, together.
	maxPoints = 256
)

func (c *Column) addSpikes(spikes []float64) *schemaProblem {
	if len(spikes) > maxSpikes {
		return bad("spikes", fmt.Sprintf("%d spikes; %d are the most", len(spikes), maxSpikes),
			"keep the values that many rows have")
	}
	for i, v := range spikes {
		if wrong := c.addPoint(v); wrong != "" {
			return bad(fmt.Sprintf("spikes[%d]", i), "a spike "+wrong, "list values that the column may have")
		}
	}
	return nil
}

// addPoint adds a number to the points, or says what is wrong with it.
func (c *Column) addPoint(v float64) (wrong string) {
	lo, hi := c.Range()
	switch at, there := slices.BinarySearch(c.Points, v+0); {
	case !(v >= lo && v <= hi):
		return "is outside the bounds of the column"
	case c.Kind == Integer && v != math.Trunc(v):
		return "is not a whole number"
	case there:
	case len(c.Points) == maxPoints:
		return fmt.Sprintf("is one number more than the %d that a schema may name of a column", maxPoints)
	default:
		// Columns of a repeat share the array.
		c.Points = slices.Insert(slices.Clone(c.Points), at, v+0)
	}
	return ""
}
