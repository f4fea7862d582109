package trees

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Parallel does pieces 0 to n-1 on as many processors as there are. Each
// processor gets its own worker, so that workers may keep memory; a piece must
// not depend on which worker does it.
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
