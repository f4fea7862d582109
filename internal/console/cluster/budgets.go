package cluster

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/conclave-dp/conclave/internal/console"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// spender is a student's share of a dataset's spending.
type spender struct {
	Dataset, By string
	Runs, Open  int
	Rounds      uint64
	// Together is the sum of the runs' epsilons, an upper bound of their joint cost.
	Together, Most float64
}

func (c *Cluster) budgets(r *http.Request) (console.View, error) {
	s, err := c.cache.get(r.Context())
	if err != nil {
		return console.View{}, err
	}
	list := console.ListOf(r, spendersOf(s.runs), func(s spender) string { return s.Dataset + " " + s.By },
		func(s spender, dataset string) bool { return s.Dataset == dataset })
	return console.View{Page: "budgets", Title: "Budgets", Events: s.events(), Data: struct {
		Budgets []*conclavev1.DatasetBudget
		List    console.List[spender]
	}{s.budgets, list}}, nil
}

// spendersOf are the students whose runs have spent something or still may, largest first.
func spendersOf(runs []*conclavev1.RunStatus) (all []spender) {
	at := map[[2]string]int{}
	for _, r := range runs {
		key := [2]string{r.GetDataset(), r.GetBy()}
		i, ok := at[key]
		if !ok {
			i = len(all)
			at[key] = i
			all = append(all, spender{Dataset: r.GetDataset(), By: r.GetBy()})
		}
		s := &all[i]
		s.Runs++
		s.Rounds += r.GetRounds()
		s.Together += r.GetEpsilonSpent()
		s.Most = max(s.Most, r.GetEpsilonSpent())
		if !ended(r.GetState()) {
			s.Open++
		}
	}
	slices.SortStableFunc(all, func(a, b spender) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(b.Together, a.Together), cmp.Compare(a.By, b.By))
	})
	return all
}
