package node

import (
	"errors"
	"fmt"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// maxScale is the largest fixed-point unit of class counts.
const maxScale = 1 << 32

// classCounts adds up the classes of the node's privacy units.
func (n *Node) classCounts(counts *conclavev1.ClassCounts) ([]int64, error) {
	if counts == nil {
		return nil, errors.New("the sum is of a kind this node does not know; update it")
	}
	if int64(counts.Classes) != int64(n.classes) {
		return nil, fmt.Errorf("counts of %d classes; the schema has %d, so use the same schema at both sides", counts.Classes, n.classes)
	}
	if counts.Scale < 1 || counts.Scale > maxScale {
		return nil, fmt.Errorf("class counts at scale %d; use 1 to %d", counts.Scale, uint64(maxScale))
	}
	return classCounts(n.units, n.classes, int64(counts.Scale)), nil
}

// classCounts adds up the classes of the units' records. A unit with k records
// adds floor(scale/k) for each of them: at most the scale in the L1 norm, and
// so in the L2 norm, however many records it has.
func classCounts(units [][]place, classes int, scale int64) []int64 {
	values := make([]int64, classes)
	for _, unit := range units {
		share := scale / int64(len(unit))
		for _, r := range unit {
			values[r.class] += share
		}
	}
	return values
}
