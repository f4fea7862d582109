package trees

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Parallel runs pieces 0 to n-1 on all processors. Each processor gets its own worker, so that workers can reuse
// memory; the result of a piece must not depend on the worker.
func Parallel(n int, worker func() func(piece int)) {
	workers := min(n, runtime.GOMAXPROCS(0))
	if workers <= 1 {
		work := worker()
		for k := range n {
			work(k)
		}
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			work := worker()
			for k := int(next.Add(1)) - 1; k < n; k = int(next.Add(1)) - 1 {
				work(k)
			}
		})
	}
	all.Wait()
}
