package question

import (
	"errors"
	"runtime"
	"sort"

	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/mapped"
)

// divided holds packed records in files that are mapped into memory. Those of a teacher and class are consecutive,
// in table order.
type divided struct {
	packing *encode.Packing
	classes int
	starts  []int // of each teacher and class among the records, and one more after the last
	records *mapped.Array[byte]
	// units holds the index in members where each unit begins, and one more; members are numbers of records.
	units, members *mapped.Array[uint64]
	unitsOf        []int
}

func (d *divided) close() error {
	return errors.Join(d.records.Close(), d.units.Close(), d.members.Close())
}

// unit returns the places of a unit's records.
func (d *divided) unit(u int) []Place {
	defer runtime.KeepAlive(d)
	members := d.members.Of[d.units.Of[u]:d.units.Of[u+1]]
	places := make([]Place, len(members))
	for i, m := range members {
		slot := sort.SearchInts(d.starts, int(m)+1) - 1
		places[i] = Place{slot / d.classes, slot % d.classes, int(m) - d.starts[slot]}
	}
	return places
}

// ofTeacher is a view of the records of a teacher.
type ofTeacher struct {
	*divided
	teacher int
}

func (o ofTeacher) Len(class int) int {
	slot := o.teacher*o.classes + class
	return o.starts[slot+1] - o.starts[slot]
}

func (o ofTeacher) Append(x []float32, class, from, to int) []float32 {
	defer runtime.KeepAlive(o.divided)
	width, first := o.packing.Bytes(), o.starts[o.teacher*o.classes+class]
	for at := first + from; at < first+to; at++ {
		x = o.packing.Append(x, o.records.Of[at*width:(at+1)*width])
	}
	return x
}
