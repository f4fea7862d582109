package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/student"
)

// asker is a student with a run of its own. It is the client that every student uses.
type asker struct {
	client *student.Client
	run    string
	next   uint64 // the next round
}

func (s *side) connect(dir string, students int) error {
	config := student.DefaultConfig()
	config.Aggregator, config.Dataset, config.Run = s.address, dataset, "none"
	config.TLS = certs.IssuedFiles(dir, certs.RoleStudent, "student")
	for i := range students {
		client, err := student.Dial(config, zap.NewNop())
		if err != nil {
			return err
		}
		s.students = append(s.students, &asker{client: client, run: fmt.Sprintf("scale-%d", i)})
	}
	return nil
}

func (s *side) open(ctx context.Context, teachers int) error {
	for _, a := range s.students {
		if _, err := a.client.OpenRun(ctx, spec(a.run, teachers)); err != nil {
			return err
		}
	}
	return nil
}

func (a *asker) ask(ctx context.Context) error {
	q := voteRound(a.run, a.next)
	if _, err := a.client.Ask(ctx, q, student.Asking{Forget: q.Number}, nil); err != nil {
		return err
	}
	a.next++
	return nil
}

// ask has all students ask at the same time, round after round, each at least so many
// rounds and for at least so long. It returns the number of rounds.
func (s *side) ask(ctx context.Context, rounds int, atLeast time.Duration) (float64, error) {
	began := time.Now()
	var asked atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for _, a := range s.students {
		group.Go(func() error {
			for n := 0; n < rounds || time.Since(began) < atLeast; n++ {
				if err := a.ask(ctx); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				asked.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return float64(asked.Load()), err
}

// leave closes the students' connections.
func (s *side) leave() (err error) {
	for _, a := range s.students {
		err = errors.Join(err, a.client.Close())
	}
	s.students = nil
	return err
}
