package audit

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// trials are runs on one dataset in one world, one after another.
type trials struct {
	scenario    *scenario
	world       int
	first, runs int
	dataset     string

	observed [][]float64                // by view
	charged  map[string][]privacy.Event // by run
	// of masked runs
	group     *masking.Group
	adversary *adversary
}

// make connects the dataset's nodes, makes the runs and reads what they were charged. The nodes leave afterwards.
func (t *trials) make(ctx context.Context, c *cluster, o Options, step func()) error {
	working, leave := context.WithCancel(ctx)
	defer leave()
	group, working := errgroup.WithContext(working)
	enter := t.enter
	if t.scenario.masked != nil {
		enter = t.enterMasked
	}
	if err := enter(working, c, group); err != nil {
		leave()
		return errors.Join(err, group.Wait())
	}
	// A node that fails ends the runs, and the end of the runs ends the nodes.
	group.Go(func() error {
		defer leave()
		client, err := c.student(t.dataset)
		if err != nil {
			return err
		}
		defer client.Close()
		for i := range t.runs {
			name := fmt.Sprintf("%s-%d", t.dataset, i)
			xs, err := t.one(working, client, name, o)
			if err != nil {
				return err
			}
			t.observed = append(t.observed, xs)
			step()
		}
		lines, err := client.Ledger(working, fmt.Sprintf("%s-0", t.dataset))
		if err != nil {
			return err
		}
		if t.charged, err = readCharges(lines); err == nil && len(t.charged) != t.runs {
			err = fmt.Errorf("the ledger has releases of %d runs, want %d", len(t.charged), t.runs)
		}
		return err
	})
	return group.Wait()
}

// enter connects the scripted nodes.
func (t *trials) enter(ctx context.Context, c *cluster, group *errgroup.Group) error {
	for site, script := range t.scenario.scripts(t.world) {
		stream, err := join(ctx, c.sites[site], site, t.dataset, len(script.votes))
		if err != nil {
			return err
		}
		group.Go(func() error { return work(ctx, stream, script.reply) })
	}
	return nil
}

// one makes a run and returns one number for each view.
func (t *trials) one(ctx context.Context, client *student.Client, name string, o Options) ([]float64, error) {
	s := t.scenario
	if _, err := client.OpenRun(ctx, s.spec(name, t.dataset, t.group, o.Epsilon, o.Delta)); err != nil {
		return nil, err
	}
	var releases []*conclavev1.Release
	for number := range s.rounds {
		r, err := client.Ask(ctx, s.round(name, uint64(number)), student.Asking{}, nil)
		if err != nil {
			return nil, err
		}
		if r.GetTeachers() != s.teachers() {
			return nil, fmt.Errorf("round %d of run %q counted %d of %d teachers; the worlds must differ in one vote "+
				"only", number, name, r.GetTeachers(), s.teachers())
		}
		releases = append(releases, r)
	}
	if _, err := client.CloseRun(ctx, name, nil); err != nil {
		return nil, err
	}
	if s.masked != nil {
		return t.adversary.observe(s, releases)
	}
	x, err := s.statistic(releases)
	return []float64{x}, err
}
