package requester

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/study"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// StateName is a state as programs read it.
func StateName(s conclavev1.RunState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "RUN_STATE_"))
}

// StateText is a state as people read it.
func StateText(s conclavev1.RunState) string { return strings.ReplaceAll(StateName(s), "_", " ") }

// Standing is how a run stands, in a line.
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

// ProgressText is how far a run is, in a line; empty where that is not known.
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

// BudgetText is how the budget of a dataset stands, in a line.
func BudgetText(b *conclavev1.DatasetBudget) string {
	return fmt.Sprintf("dataset %s: epsilon %g at delta %g (%s); spent %.4g, computed afterwards; "+
		"%.4g with all that %d open and %d waiting runs may still spend; left for one more run: %.6g",
		b.GetDataset(), b.GetEpsilon(), b.GetDelta(), b.GetFilter(), b.GetEpsilonSpent(),
		b.GetEpsilonReserved(), b.GetOpen(), b.GetWaiting(), b.GetEpsilonLeft()) + StudyText(b)
}

// StudyText is the study of a dataset on a line of its own, nothing where it wants none.
func StudyText(b *conclavev1.DatasetBudget) string {
	of := study.FromWire(b.GetStudy())
	if of == nil {
		return ""
	}
	return fmt.Sprintf("\nits runs must be of this study: %s; to the end of %s", of.Line(), of.Expires)
}

// Notes say what keeps a run that was submitted from its turn, in lines; none where nothing does.
func Notes(r *conclavev1.SubmitRunResponse) (notes []string) {
	waits := r.GetRun().GetState() == conclavev1.RunState_RUN_STATE_WAITING
	if quorum := QuorumText(r.GetQuorum()); waits && quorum != "" {
		notes = append(notes, strings.TrimSuffix(quorum, "\n"))
	}
	notes = append(notes, fmt.Sprintf("one more run at delta %g could have epsilon %.6g", r.GetRun().GetDelta(),
		r.GetEpsilonLeft()))
	if !r.GetFits() {
		notes = append(notes, "it does not fit if all runs before it spend what they may: "+
			"it ends as out of budget then, and nothing is spent for it")
	}
	if waits && r.GetBudget().GetWorkers() == 0 {
		notes = append(notes, "no worker is connected: it waits until one is (student --config FILE, with queue: true)")
	}
	return notes
}

// QuorumText says what a run waits for as things stand, with its line's end; nothing where enough is connected.
func QuorumText(q *conclavev1.Quorum) string {
	for _, of := range []struct {
		needed, live uint32
		what         string
	}{
		{q.GetTeachersNeeded(), q.GetTeachersLive(), "teachers"},
		{q.GetSitesNeeded(), q.GetSitesLive(), "member sites"},
	} {
		if of.live < of.needed {
			return fmt.Sprintf("of the %d %s that it needs %d are connected now: it cannot begin before more are\n",
				of.needed, of.what, of.live)
		}
	}
	return ""
}
