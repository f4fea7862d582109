package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/console"
	"github.com/conclave-dp/conclave/internal/requester"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/study"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// row is a run in a table.
type row struct {
	*conclavev1.RunStatus
	StateText, Why string
}

func rowOf(r *conclavev1.RunStatus) row {
	why := r.GetReason()
	if !r.GetQueued() {
		why = "opened by a student without the queue"
	}
	return row{r, requester.StateText(r.GetState()), why}
}

func ended(s conclavev1.RunState) bool {
	return s != conclavev1.RunState_RUN_STATE_WAITING && s != conclavev1.RunState_RUN_STATE_RUNNING
}

// states are the filters for runs.
func states() (names []string) {
	for s := conclavev1.RunState_RUN_STATE_WAITING; s <= conclavev1.RunState_RUN_STATE_CANCELLED; s++ {
		names = append(names, requester.StateText(s))
	}
	return names
}

func (c *Cluster) runPages() {
	c.Get("/runs", c.runs)
	c.Get("/runs/{name}", c.run)
	c.Events("/runs/{name}/events", c.watch)
	c.Post("/runs/{name}/cancel", c.cancel)
	c.Post("/runs/{name}/remove", c.remove)
}

func (c *Cluster) runs(r *http.Request) (console.View, error) {
	s, err := c.cache.get(r.Context())
	if err != nil {
		return console.View{}, err
	}
	list := console.ListOf(r, s.runs, func(r *conclavev1.RunStatus) string {
		return strings.Join([]string{r.GetName(), r.GetDataset(), r.GetBy(), r.GetPipeline(), r.GetPurpose(),
			r.GetWorker()}, " ")
	}, func(r *conclavev1.RunStatus, state string) bool { return requester.StateText(r.GetState()) == state })
	title := "Runs"
	if !c.operator() {
		title = "Your runs"
	}
	return console.View{Page: "runs", Title: title, Events: s.events(), Data: struct {
		List   console.List[*conclavev1.RunStatus]
		Rows   []row
		States []string
	}{list, rowsOf(list.Rows), states()}}, nil
}

func rowsOf(runs []*conclavev1.RunStatus) (rows []row) {
	for _, r := range runs {
		rows = append(rows, rowOf(r))
	}
	return rows
}

// queue shows waiting and running runs in queue order.
func (c *Cluster) queue(r *http.Request) (console.View, error) {
	s, err := c.cache.get(r.Context())
	if err != nil {
		return console.View{}, err
	}
	var open []*conclavev1.RunStatus
	for _, run := range slices.Backward(s.runs) { // oldest first
		if !ended(run.GetState()) {
			open = append(open, run)
		}
	}
	slices.SortStableFunc(open, func(a, b *conclavev1.RunStatus) int {
		if n := strings.Compare(a.GetDataset(), b.GetDataset()); n != 0 {
			return n
		}
		return int(a.GetPlace()) - int(b.GetPlace())
	})
	list := console.ListOf(r, open, func(r *conclavev1.RunStatus) string {
		return strings.Join([]string{r.GetName(), r.GetDataset(), r.GetBy(), r.GetReason()}, " ")
	}, func(r *conclavev1.RunStatus, dataset string) bool { return r.GetDataset() == dataset })
	return console.View{Page: "queue", Title: "Queue", Events: s.events(), Data: struct {
		List     console.List[*conclavev1.RunStatus]
		Rows     []row
		Datasets []*conclavev1.DatasetBudget
	}{list, rowsOf(list.Rows), s.budgets}}, nil
}

// run shows a run, as `conclave run show` does.
func (c *Cluster) run(r *http.Request) (console.View, error) {
	name := r.PathValue("name")
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	shown, err := c.from.Show(ctx, name)
	if errors.Is(err, student.ErrNotHeld) {
		return console.View{}, console.NotFound("%w", err)
	}
	if err != nil {
		return console.View{}, away(ctx, err)
	}
	run := shown.GetRun()
	data := struct {
		row
		Standing, Progress string
		Study              *study.Block
		Round, Rounds      uint64
		Mine, Ended        bool
		RunYAML            string
		Fetched            *result
	}{row: rowOf(run), Standing: requester.Standing(run), Progress: requester.ProgressText(shown.GetProgress()),
		Study: study.FromWire(run.GetStudy()),
		Round: shown.GetProgress().GetRound(), Rounds: shown.GetProgress().GetRounds(),
		Mine: !c.operator() && run.GetBy() == c.who.Name, Ended: ended(run.GetState()),
		RunYAML: string(shown.GetRunYaml()), Fetched: c.fetched.get(name)}
	v := console.View{Page: "run", Title: "Run " + name, Data: data}
	if !data.Ended {
		v.Events = "/runs/" + name + "/events"
	}
	return v, nil
}

// watch notifies the page of a run of its progress, as `conclave run watch` does.
func (c *Cluster) watch(ctx context.Context, r *http.Request, changed func()) error {
	_, err := c.from.Watch(ctx, r.PathValue("name"), func(*conclavev1.WatchRunResponse) { changed() })
	c.cache.expire(r.PathValue("name"))
	return err
}

func (c *Cluster) cancel(r *http.Request) (to, say string, err error) {
	name := r.PathValue("name")
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	run, err := c.from.Cancel(ctx, name, r.PostFormValue("force") == "yes")
	c.cache.expire(name)
	if err != nil {
		return "/runs/" + name, "", away(ctx, err)
	}
	say = fmt.Sprintf("Run %s is %s. It had not started, and nothing was spent.", name,
		requester.StateText(run.GetState()))
	if run.GetOpened() {
		say = fmt.Sprintf("Run %s is %s. Epsilon %.4g in %d rounds was spent and stays spent.", name,
			requester.StateText(run.GetState()), run.GetEpsilonSpent(), run.GetRounds())
	}
	return "/runs/" + name, say, nil
}

func (c *Cluster) remove(r *http.Request) (to, say string, err error) {
	name := r.PathValue("name")
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	err = c.from.Remove(ctx, name)
	c.cache.expire(name)
	if err != nil {
		return "/runs/" + name, "", away(ctx, err)
	}
	return "/runs", "Run " + name + " is removed. Its entries in the ledger stay.", nil
}
