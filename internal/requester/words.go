package requester

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/study"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// StateName is a state for programs.
func StateName(s conclavev1.RunState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "RUN_STATE_"))
}

// StateText is a state for people.
func StateText(s conclavev1.RunState) string { return strings.ReplaceAll(StateName(s), "_", " ") }

// Standing is a run's status on one line.
func Standing(r *conclavev1.RunStatus) string {
	parts := []string{StateText(r.GetState())}
	switch {
	case r.GetState() == conclavev1.RunState_RUN_STATE_WAITING && r.GetPlace() > 0:
		parts = append(parts, fmt.Sprintf("number %d in line", r.GetPlace()))
	case r.GetState() == conclavev1.RunState_RUN_STATE_RUNNING && r.GetWorker() != "":
		parts = append(parts, "at worker "+r.GetWorker())
	}
	if r.GetReason() != "" {
		parts = append(parts, r.GetReason())
	}
	return strings.Join(parts, ", ")
}

// ProgressText is a run's progress on one line; empty if unknown.
func ProgressText(p *conclavev1.RunProgress) string {
	if p.GetRounds() == 0 {
		return ""
	}
	parts := []string{
		fmt.Sprintf("%s %d of %d", cmp.Or(p.GetOf(), "round"), p.GetRound(), p.GetRounds()),
		p.GetWaiting(), p.GetPart(),
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// BudgetText is the state of a dataset's budget on one line.
func BudgetText(b *conclavev1.DatasetBudget) string {
	return fmt.Sprintf("dataset %s: budget epsilon %g at delta %g (filter %s); spent so far: %.4g; spent after %d "+
		"open and %d waiting runs at most: %.4g; left for one more run: %.6g", b.GetDataset(), b.GetEpsilon(),
		b.GetDelta(), b.GetFilter(), b.GetEpsilonSpent(), b.GetOpen(), b.GetWaiting(), b.GetEpsilonReserved(),
		b.GetEpsilonLeft()) + StudyText(b)
}

// StudyText is a dataset's study on a line of its own; empty without one.
func StudyText(b *conclavev1.DatasetBudget) string {
	of := study.FromWire(b.GetStudy())
	if of == nil {
		return ""
	}
	return fmt.Sprintf("\nits runs must belong to this study: %s; ends on %s", of.Line(), of.Expires)
}

// Notes are lines that say what delays a submitted run; none if nothing does.
func Notes(r *conclavev1.SubmitRunResponse) (notes []string) {
	waits := r.GetRun().GetState() == conclavev1.RunState_RUN_STATE_WAITING
	if quorum := QuorumText(r.GetQuorum()); waits && quorum != "" {
		notes = append(notes, strings.TrimSuffix(quorum, "\n"))
	}
	notes = append(notes, fmt.Sprintf("one more run at delta %g could have epsilon %.6g", r.GetRun().GetDelta(),
		r.GetEpsilonLeft()))
	if !r.GetFits() {
		notes = append(notes, "the budget may not suffice if all earlier runs spend what they may: then it ends as "+
			"out of budget, at no cost")
	}
	if waits && r.GetBudget().GetWorkers() == 0 {
		notes = append(notes, "no worker is connected, and the run waits for one (student --config FILE, with queue: "+
			"true)")
	}
	return notes
}

// QuorumText says, as a line, what a run currently waits for; empty if enough is connected.
func QuorumText(q *conclavev1.Quorum) string {
	for _, of := range []struct {
		needed, live uint32
		what         string
	}{
		{q.GetTeachersNeeded(), q.GetTeachersLive(), "teachers"},
		{q.GetSitesNeeded(), q.GetSitesLive(), "member sites"},
	} {
		if of.live < of.needed {
			return fmt.Sprintf("the run needs %d %s, and %d are connected now; it starts when enough are connected\n",
				of.needed, of.what, of.live)
		}
	}
	return ""
}
