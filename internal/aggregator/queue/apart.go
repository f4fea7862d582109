package queue

import (
	"cmp"

	"github.com/conclave-dp/conclave/coordinator"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A run whose worker is gone may have ended it, and with it the worker's process and all that this held.
// Which of them it was nobody can tell. So each of them has a process to itself from then on, and what is
// lost after that is lost by its own doing.

// process is one that workers belong to: whom its certificate names, and its name.
type process struct{ holder, name string }

// processOf names the process of a worker.
func processOf(w *conclavev1.Worker) string { return cmp.Or(w.GetProcess(), w.GetName()) }

// heldBy returns the runs of a dataset that a process holds, or held until it ended.
func (q *Queue) heldBy(dataset string, p process) (held []coordinator.Submission) {
	for _, s := range q.in(dataset, coordinator.Running) {
		if s.Holder == p.holder && cmp.Or(s.Process, s.Worker) == p.name {
			held = append(held, s)
		}
	}
	return held
}

// apart answers whether a process may have a run that could begin, where it holds others. The process that
// lost the run takes nothing more until it has the run, so that this has its turn. That one may never come
// back: so one more process of the dataset does the same, and no others, which go on meanwhile. Callers hold
// the queue's turn.
func (q *Queue) apart(s coordinator.Submission, p process, held []coordinator.Submission) turn {
	if !s.Lost() || len(held) == 0 {
		return begin
	}
	if cmp.Or(s.Process, s.Worker) == p.name {
		return blocked
	}
	if len(q.heldBy(s.Dataset, q.emptied[s.Dataset])) == 0 {
		q.emptied[s.Dataset] = p // the one before has the run, or is gone
	}
	if q.emptied[s.Dataset] == p {
		return blocked
	}
	return passed
}
