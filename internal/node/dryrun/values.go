package dryrun

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/votebits"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Private is what the node's teachers would answer to a question about random records. It is PRIVATE to the site,
// because it has no noise.
type Private struct {
	Kind string
	Text string // some of the numbers
}

const (
	// mostTeachers, mostQueries and mostNumbers bound what is displayed.
	mostTeachers, mostQueries, mostNumbers = 8, 64, 24
)

// Rehearse makes the teachers answer each question that can be asked alone, about public synthetic records. It stores
// nothing and sends nothing.
func (r *Report) Rehearse(site *node.Site) ([]Private, error) {
	var rounds []*conclavev1.Round
	// Public, like the records that a student draws; the draws protect nothing.
	rng := rand.New(rand.NewPCG(1, 0x5e))
	for _, q := range r.Questions {
		if q.round == nil {
			continue
		}
		rounds = append(rounds, site.Draw(q.round, rng))
	}
	if len(rounds) == 0 {
		return nil, ErrNothing
	}
	answers, err := site.Rehearse(rounds)
	if err != nil {
		return nil, err
	}
	out := make([]Private, len(answers))
	for i, a := range answers {
		out[i] = Private{Kind: rounds[i].GetKind(), Text: written(rounds[i], a)}
	}
	return out, nil
}

// written formats some of an answer's numbers.
func written(r *conclavev1.Round, a *conclavev1.WorkRequest) string {
	var b strings.Builder
	if v := a.GetVotes(); v != nil {
		classes := int(r.GetVotes().GetClasses())
		row := votebits.Row(int(v.GetQueries()), classes)
		teachers, queries := min(int(v.GetTeachers()), mostTeachers), min(int(v.GetQueries()), mostQueries)
		for t := range teachers {
			fmt.Fprintf(&b, "  teacher %d:", t+1)
			for q := range queries {
				fmt.Fprintf(&b, " %d", votebits.Vote(v.GetPacked()[t*row:(t+1)*row], q, classes))
			}
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "  by %s for %s\n", text.Several(v.GetTeachers(), "teacher"),
			text.Several(v.GetQueries(), "query"))
		return b.String()
	}
	values := a.GetSum().GetValues()
	b.WriteString(" ")
	for _, v := range values[:min(len(values), mostNumbers)] {
		fmt.Fprintf(&b, " %d", v)
	}
	fmt.Fprintf(&b, "\n  of %d numbers, in steps of the question's fixed point\n", len(values))
	return b.String()
}
