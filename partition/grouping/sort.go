package grouping

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/lanrat/extsort"
)

// sorted is a sort on the disk.
type sorted[E any] struct {
	in    chan E
	out   <-chan E
	errs  <-chan error
	ready chan struct{} // closed when all elements are in
}

func begin[E any](ctx context.Context, dir string, to func(E) []byte, from func([]byte) E,
	compare func(a, b E) int) *sorted[E] {
	s := &sorted[E]{in: make(chan E, 1024), ready: make(chan struct{})}
	sorter, out, errs := extsort.Generic(s.in, func(b []byte) (E, error) { return from(b), nil },
		func(e E) ([]byte, error) { return to(e), nil }, compare,
		&extsort.Config{ChunkSize: chunkRows, NumWorkers: 2, SortedChanBuffSize: 1024, TempFilesDir: dir})
	s.out, s.errs = out, errs
	go func() {
		defer close(s.ready)
		sorter.Sort(ctx)
	}()
	return s
}

// add adds an element, or returns why the sort has already ended.
func (s *sorted[E]) add(ctx context.Context, e E) error {
	select {
	case s.in <- e:
		return nil
	default:
	}
	select {
	case s.in <- e:
		return nil
	case <-s.ready:
		return s.failed(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errEnded = errors.New("the sort ended early")

func (s *sorted[E]) failed(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := cmp.Or(<-s.errs, errEnded)
	return fmt.Errorf("sort rows on the disk: %w; free space for the state folder", err)
}

// all yields the elements in order.
func (s *sorted[E]) all(ctx context.Context) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		close(s.in)
		<-s.ready
		for e := range s.out {
			if !yield(e, nil) {
				return
			}
		}
		var none E
		if err := <-s.errs; err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			yield(none, fmt.Errorf("sort rows on the disk: %w; free space for the state folder", err))
		}
	}
}
