package embedding

// Batch is some records with the intermediate values that their sum and slope share. It is not safe for concurrent
// use, and reuses its memory for each Take.
type Batch struct {
	f       *Features
	passes  []pass
	classes []int
}

// Batch allocates a batch.
func (f *Features) Batch() *Batch {
	b := &Batch{f: f}
	for _, p := range f.parts {
		b.passes = append(b.passes, p.pass())
	}
	return b
}

// Take sets the records x, shape [len(classes), Width]. x and classes must not change until the next Take.
func (b *Batch) Take(x []float32, classes []int) {
	b.classes = classes
	for _, p := range b.passes {
		p.take(x, len(classes))
	}
}

// Sum adds the vector of each record to its class in dst, shape [classes, Count].
func (b *Batch) Sum(dst []float64) {
	first := 0
	for k, p := range b.passes {
		count := b.f.parts[k].count()
		for i, c := range b.classes {
			from := c*b.f.count + first
			p.sum(i, dst[from:from+count])
		}
		first += count
	}
}

// Slope writes to dx, shape [n, Width], the gradient with respect to the records of the sum over them of weights,
// shape [classes, Count], times their vectors. For a category it is the change from choosing it, with the rest of
// the record unchanged: the quantity to minimize, up to a constant for all categories of a column; see package
// output. If a flag says that a number is empty, the number may have the value that it would have otherwise: it
// affects only the flag.
func (b *Batch) Slope(dx, weights []float32) {
	clear(dx)
	first := 0
	for k, p := range b.passes {
		count := b.f.parts[k].count()
		p.slope(dx, func(i int) []float32 {
			from := b.classes[i]*b.f.count + first
			return weights[from : from+count]
		})
		first += count
	}
}

// chunk is the number of records processed at a time.
const chunk = 256

// Each calls visit for the vector of each of n records x, shape [n, Width]: values at indexes of [0, Count), each
// index at most once; all others are 0. Both slices are valid until visit returns.
func (f *Features) Each(x []float32, n int, visit func(i int, at []int32, values []float32)) {
	f.newEach().visit(x, n, visit)
}

// each is the memory in which vectors are made. It is not safe for concurrent use.
type each struct {
	*Batch
	classes []int // vectors do not depend on them
	at      []int32
	values  []float32
}

func (f *Features) newEach() *each { return &each{Batch: f.Batch(), classes: make([]int, chunk)} }

func (e *each) visit(x []float32, n int, visit func(i int, at []int32, values []float32)) {
	f := e.f
	for lo := 0; lo < n; lo += chunk {
		m := min(chunk, n-lo)
		e.Take(x[lo*f.width:(lo+m)*f.width], e.classes[:m])
		for i := range m {
			e.at, e.values = e.at[:0], e.values[:0]
			first := int32(0)
			for k, p := range e.passes {
				e.at, e.values = p.each(i, first, e.at, e.values)
				first += int32(f.parts[k].count())
			}
			visit(lo+i, e.at, e.values)
		}
	}
}

// Sum is [Batch.Sum] for any number of records.
func (f *Features) Sum(dst []float64, x []float32, classes []int) {
	b := f.Batch()
	for lo := 0; lo < len(classes); lo += chunk {
		hi := min(lo+chunk, len(classes))
		b.Take(x[lo*f.width:hi*f.width], classes[lo:hi])
		b.Sum(dst)
	}
}

// Slope is [Batch.Slope] for any number of records.
func (f *Features) Slope(dx, weights, x []float32, classes []int) {
	b := f.Batch()
	for lo := 0; lo < len(classes); lo += chunk {
		hi := min(lo+chunk, len(classes))
		b.Take(x[lo*f.width:hi*f.width], classes[lo:hi])
		b.Slope(dx[lo*f.width:hi*f.width], weights)
	}
}
