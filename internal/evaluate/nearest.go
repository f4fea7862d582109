package evaluate

import (
	"cmp"
	"encoding/binary"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/partition"
)

// absent is the coordinate of an empty cell: farther than 1 from any other.
const absent = -4.0

// space represents rows as points, with one coordinate per data column. The distance of two points is the sum
// of the coordinates' differences, each at most 1: a number's place in its public range, and the index of a
// category.
type space struct {
	schema  *partition.Schema
	columns []int
}

func newSpace(schema *partition.Schema) *space { return &space{schema, dataColumns(schema)} }

// points lays out rows of a table one after the other.
func (s *space) points(t *partition.Table, rows []int) []float64 {
	out := make([]float64, 0, len(rows)*len(s.columns))
	for _, i := range rows {
		cells := t.Cells(i)
		for _, j := range s.columns {
			switch c, v := &s.schema.Columns[j], cells[j]; {
			case math.IsNaN(v):
				out = append(out, absent)
			case isNumber(c):
				out = append(out, place(c, v))
			default:
				out = append(out, v)
			}
		}
	}
	return out
}

// sort puts the columns that separate points most first, so that a search can abandon a point early.
func (s *space) sort(points []float64) {
	const pairs = 2000
	d := len(s.columns)
	apart := make([]float64, d)
	n := len(points) / d
	for i := range min(n, pairs) {
		a, b := points[i*d:], points[(i*7919+n/2)%n*d:]
		for k := range d {
			apart[k] += min(math.Abs(a[k]-b[k]), 1)
		}
	}
	order := count(d)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(apart[b], apart[a]) })
	s.columns = pick(s.columns, order)
	row := make([]float64, d)
	for i := range n {
		for k, from := range order {
			row[k] = points[i*d+from]
		}
		copy(points[i*d:], row)
	}
}

// grain is the precision to which distances are rounded, far above the error of a sum: equal distances between
// other numbers must stay equal, like those from 1 to 3 and from 3 to 5.
const grain = 0x1p-40

// closest returns the mean distance over the columns from each query to the closest point. Queries are
// independent, so the result does not depend on the number of processors.
func (s *space) closest(queries, points []float64) []float64 {
	d := len(s.columns)
	out := make([]float64, len(queries)/d)
	const chunk = 32
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for first := 0; first < len(out); first += chunk {
		group.Go(func() error {
			for i := first; i < min(first+chunk, len(out)); i++ {
				out[i] = math.Round(nearest(queries[i*d:(i+1)*d], points)/float64(d)/grain) * grain
			}
			return nil
		})
	}
	_ = group.Wait() // no chunk fails
	return out
}

// nearest is the smallest sum of differences from the query to a point.
func nearest(query, points []float64) float64 {
	d := len(query)
	best := math.Inf(1)
	for at := 0; at < len(points); at += d {
		point := points[at : at+d : at+d]
		sum := 0.0
		// Four at a time: a check after each costs more than it saves.
		k := 0
		for ; k+4 <= d && sum < best; k += 4 {
			q, p := query[k:k+4:k+4], point[k:k+4:k+4]
			sum += min(math.Abs(q[0]-p[0]), 1) + min(math.Abs(q[1]-p[1]), 1) +
				(min(math.Abs(q[2]-p[2]), 1) + min(math.Abs(q[3]-p[3]), 1))
		}
		if sum >= best {
			continue
		}
		for ; k < d; k++ {
			sum += min(math.Abs(query[k]-point[k]), 1)
		}
		if sum < best {
			if best = sum; best == 0 {
				return 0
			}
		}
	}
	return best
}

// copies is the share, by weight, of rows that equal one of the rows of another
// table in every cell of the columns.
func copies(t *partition.Table, rows []int, weight []float64, other *partition.Table, otherRows []int,
	columns []int) float64 {
	known := make(map[string]bool, len(otherRows))
	var key []byte
	for _, i := range otherRows {
		key = appendKey(key[:0], other.Cells(i), columns)
		known[string(key)] = true
	}
	var same, total float64
	for _, i := range rows {
		total += weight[i]
		if key = appendKey(key[:0], t.Cells(i), columns); known[string(key)] {
			same += weight[i]
		}
	}
	return same / total
}

func appendKey(key []byte, cells []float64, columns []int) []byte {
	for _, j := range columns {
		v := cells[j] + 0 // no -0
		if math.IsNaN(v) {
			v = math.NaN() // NaN has many forms: use one
		}
		key = binary.LittleEndian.AppendUint64(key, math.Float64bits(v))
	}
	return key
}
