package parallel

import (
	"sync/atomic"
	"testing"
	"time"
)

// A panic in the caller's part reaches the caller once the other parts are done,
// so that the pool can be used again.
func TestPoolWaitsWhenAPartPanics(t *testing.T) {
	p := &Pool{Limit: 3}
	var begun, done atomic.Int64
	caller := make(chan struct{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		p.Each(20, func(_ int, w *Worker) {
			begun.Add(1)
			if w.Index == 0 {
				close(caller)
				for begun.Load() < 3 { // the others have begun
					time.Sleep(time.Microsecond)
				}
				panic("part")
			}
			<-caller
			time.Sleep(time.Millisecond)
			done.Add(1)
		})
	}()
	if done.Load() != 19 {
		t.Errorf("%d of the other parts were done, want 19", done.Load())
	}
	var sum atomic.Int64
	p.Each(20, func(part int, _ *Worker) { sum.Add(int64(part)) })
	if sum.Load() != 190 {
		t.Errorf("parts add up to %d, want 190", sum.Load())
	}
}
