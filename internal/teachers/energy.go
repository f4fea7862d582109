package teachers

import (
	"math"
	"runtime"
	"sync"
)

// energyFloor keeps the gradient of a distance finite where two records are equal.
const energyFloor = 1e-2

// energyRows is the number of real records processed at a time.
const energyRows = 64

// energyGradients calls visit with every teacher's gradients at the queries, for a critic that needs no training.
// The score of a record x of class c is
//
//	sum over the teacher's records r of c of: mean over generated g of c |x-g| - |x-r|
//
// whose expectation over x is the energy distance between the two, up to a constant (Székely and Rizzo 2013). It
// moves x towards the real records and away from the generated ones. It is a sum over records, so the mean of many
// teachers' gradients is that of all their records together, even if each has few. A generator's loss is minus the
// score.
func (l *lesson) energyGradients(visit func(teacher int, dx []float32)) {
	d, n := l.asked.spec.Features, len(l.queries.classes)
	push := make([]float32, n*d) // the gradient from the generated records, for each real record
	byClass := make([][]int, l.asked.spec.Classes)
	for i, c := range l.training.classes {
		byClass[c] = append(byClass[c], i)
	}
	for q, c := range l.queries.classes {
		for _, g := range byClass[c] {
			pull(push[q*d:(q+1)*d], l.queries.x[q*d:(q+1)*d], l.training.x[g*d:(g+1)*d], -1/float32(len(byClass[c])))
		}
	}
	queries := make([][]int, l.asked.spec.Classes)
	for q, c := range l.queries.classes {
		queries[c] = append(queries[c], q)
	}
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			dx, spare := make([]float32, n*d), make([]float32, d)
			for t := range next {
				clear(dx)
				own := l.examples[t].Seen(d)
				for c, of := range queries {
					n := own.Len(c)
					if n == 0 { // the same work as with one record
						for _, q := range of {
							pull(spare, l.queries.x[q*d:(q+1)*d], l.queries.x[q*d:(q+1)*d], 1)
						}
					}
					for from := 0; from < n; from += energyRows {
						each(own, d, c, from, min(n, from+energyRows), func(r []float32) {
							for _, q := range of {
								pull(dx[q*d:(q+1)*d], l.queries.x[q*d:(q+1)*d], r, 1)
							}
						})
					}
					for _, q := range of {
						to := dx[q*d : (q+1)*d]
						for j, v := range push[q*d : (q+1)*d] {
							to[j] += float32(n) * v
						}
					}
				}
				visit(t, dx)
			}
		})
	}
	for t := range l.examples {
		if l.site.Wanted() != nil {
			break
		}
		next <- t
	}
	close(next)
	wg.Wait()
}

// pull adds to dx the gradient of weight times |x-r| with respect to x.
func pull(dx, x, r []float32, weight float32) {
	var squares float32
	for j, v := range x {
		e := v - r[j]
		squares += e * e
	}
	scale := weight / float32(math.Sqrt(float64(squares)+energyFloor))
	for j, v := range x {
		dx[j] += scale * (v - r[j])
	}
}
