package queue

import (
	"cmp"

	"github.com/conclave-dp/conclave/coordinator"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A run whose worker is gone may have ended it, and with it the worker's process and all that this held.
// Which of them it was nobody can tell. So each of them has a process to itself from then on, and what is
// lost after that is lost by its own doing.

// processOf names the process of a worker.
func processOf(w *conclavev1.Worker) string { return cmp.Or(w.GetProcess(), w.GetName()) }

// heldBy returns the runs of a worker's dataset that its process holds, or held until it ended.
func (q *Queue) heldBy(w *conclavev1.Worker, holder string) (held []coordinator.Submission) {
	for _, s := range q.in(w.GetDataset(), coordinator.Running) {
		if s.Holder == holder && cmp.Or(s.Process, s.Worker) == processOf(w) {
			held = append(held, s)
		}
	}
	return held
}

// apart answers whether a worker may have a run that could begin, where its process holds others. The
// process that lost the run takes nothing more until it has the run, so that this has its turn; others go on
// meanwhile.
func apart(s coordinator.Submission, w *conclavev1.Worker, held []coordinator.Submission) turn {
	switch {
	case !s.Lost() || len(held) == 0:
		return begin
	case cmp.Or(s.Process, s.Worker) == processOf(w):
		return blocked
	}
	return passed
}
