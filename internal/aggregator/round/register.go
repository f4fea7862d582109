package round

import (
	"context"
	"errors"
	"time"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/certs"
)

// Opened is an opened run: its dataset, who opened it, who wanted it, whether it may be open, its number of plan
// entries, and how many of its questions are in the ledger as far as this server counted.
type Opened struct {
	Dataset, By, Student string
	Open                 bool
	Entries              int
	questions            uint64
}

func openedAs(r coordinator.Run) Opened {
	o := Opened{
		Dataset: r.Dataset, By: r.By, Student: r.Student, Open: !r.Closed, Entries: r.PlanEntries(),
		questions: r.Releases + r.Abandoned,
	}
	if o.Student == "" {
		o.Student = r.By
	}
	return o
}

// register stores a run, or finds it again for its student.
func (rs *Rounds) register(ctx context.Context, r coordinator.Run, by certs.Identity, deadline time.Duration) (
	existing bool, err error) {
	rs.opening.Lock()
	defer rs.opening.Unlock()
	if err := rs.lookForOpened(ctx); err != nil {
		return false, err
	}
	stored, err := rs.Store.Run(ctx, r.Name)
	fresh := errors.Is(err, coordinator.ErrNoRun)
	if err != nil && !fresh {
		return false, err
	}
	r.Student = rs.Requester(r.Name, "")
	queued := r.Student != ""
	if !fresh || queued {
		// Checked before any comparison: a refusal that names differences would confirm guesses.
		if err := rs.MayAsk(r.Name, stored.By, r.Claim, by); err != nil {
			return false, err
		}
	}
	if !queued {
		r.Student = r.By
	}
	if !fresh {
		return rs.Store.OpenRun(ctx, rs.Lead, r)
	}
	if err := rs.Datasets[r.Dataset].CheckStudy(r.Name, r.Facts.Study, rs.Now()); err != nil {
		return false, err
	}
	if err := rs.admit(r, queued, deadline); err != nil {
		return false, err
	}
	// If the student leaves meanwhile, a stored run must still be counted.
	leading := rs.Lifetime.Leading()
	existing, err = rs.Store.OpenRun(leading, rs.Lead, r)
	if err != nil {
		if _, missing := rs.Store.Run(leading, r.Name); errors.Is(missing, coordinator.ErrNoRun) {
			return false, err
		}
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.opened[r.Name] = openedAs(r)
	return existing, err
}

// admit refuses a new run if its student has reached the limit on runs or plan entries, or if its deadline is too
// short. The queue has already counted all queued runs.
func (rs *Rounds) admit(r coordinator.Run, queued bool, deadline time.Duration) error {
	open, ever, entries := 0, 0, 0
	rs.mu.Lock()
	for _, o := range rs.opened {
		if o.By == r.By && o.Open {
			open++
		}
		if o.Student == r.By {
			ever++
		}
		if o.Student == r.Student && o.Dataset == r.Dataset {
			entries += o.Entries
		}
	}
	rs.mu.Unlock()
	switch {
	case open >= rs.MostOpen:
		return fault.TooManyf("student %q has %d open runs, the maximum; close some, or have the operator cancel "+
			"them", r.By, open)
	case !queued && ever >= rs.MostRuns:
		return fault.TooManyf("student %q has opened %d runs, the maximum (max_runs); have the operator raise "+
			"max_runs", r.By, ever)
	case entries+len(r.Plan) > rs.MostEntries:
		return TooManyEntries(r.Student, r.Dataset, entries, len(r.Plan), rs.MostEntries)
	case deadline < rs.LeastDeadline:
		return fault.Refusedf("run %q gives its rounds a deadline of %v; the minimum is %v (least_deadline); set a "+
			"longer deadline in the section of its pipeline",
			r.Name, deadline, rs.LeastDeadline)
	}
	return nil
}

// TooManyEntries refuses a run whose plan has more entries than its student has left on a dataset. Each may add a
// mechanism to the dataset's totals, which etcd keeps forever in one value.
func TooManyEntries(student, dataset string, had, more, most int) error {
	return fault.TooManyf("the plans of student %q on dataset %q have %d entries, and %d more exceed the maximum of "+
		"%d (max_plan_entries); open runs with fewer entries, or have the operator raise "+
		"max_plan_entries", student, dataset, had, more, most)
}

// Opened returns all runs ever opened that wanted selects, by name.
func (rs *Rounds) Opened(ctx context.Context, wanted func(Opened) bool) (map[string]Opened, error) {
	rs.opening.Lock()
	defer rs.opening.Unlock()
	if err := rs.lookForOpened(ctx); err != nil {
		return nil, err
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	found := map[string]Opened{}
	for name, o := range rs.opened {
		if wanted(o) {
			found[name] = o
		}
	}
	return found, nil
}

// lookForOpened reads once which runs were opened. Callers hold rs.opening.
func (rs *Rounds) lookForOpened(ctx context.Context) error {
	rs.mu.Lock()
	known := rs.opened != nil
	rs.mu.Unlock()
	if known {
		return nil
	}
	runs, err := rs.Store.AllRuns(ctx)
	if err != nil {
		return err
	}
	opened, questions := map[string]Opened{}, map[string]uint64{}
	for _, r := range runs {
		if _, served := rs.Datasets[r.Dataset]; served {
			o := openedAs(r)
			opened[r.Name] = o
			questions[o.Student] += o.questions
		}
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.opened, rs.questions = opened, questions
	return nil
}

// mayAskMore refuses a question if its student has reached the limit: each is an entry of the ledger, and cheap
// questions could come a thousand times a second. record is the question's run in etcd.
func (rs *Rounds) mayAskMore(ctx context.Context, record coordinator.Run) error {
	rs.mu.Lock()
	o, known := rs.opened[record.Name]
	rs.mu.Unlock()
	if !known { // a new leader
		rs.opening.Lock()
		defer rs.opening.Unlock()
		if err := rs.lookForOpened(ctx); err != nil {
			return err
		}
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	o = rs.opened[record.Name]
	asked := record.Releases + record.Abandoned
	rs.questions[o.Student] += asked - o.questions
	o.questions = asked
	rs.opened[record.Name] = o
	if n := rs.questions[o.Student]; n >= uint64(rs.MostQuestions) {
		return fault.TooManyf("student %q has been charged for %d questions, the maximum (max_questions); have the "+
			"operator raise max_questions", o.Student, n)
	}
	return nil
}

// dropped forgets a closed run, except who opened it.
func (rs *Rounds) dropped(name string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.runs, name)
	if o, ok := rs.opened[name]; ok {
		o.Open = false
		rs.opened[name] = o
	}
}

// InUse is the number of runs in memory.
func (rs *Rounds) InUse() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.runs)
}
