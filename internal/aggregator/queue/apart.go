package queue

import (
	"cmp"

	"github.com/conclave-dp/conclave/coordinator"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A run whose worker is gone may have killed the worker's process, with all other runs in it. Nobody can tell which
// run did it. So each of these runs gets a process to itself from then on, and a later loss is that run's own fault.

// process is the process of workers: the holder of its certificate, and its name.
type process struct{ holder, name string }

// processOf names the process of a worker.
func processOf(w *conclavev1.Worker) string { return cmp.Or(w.GetProcess(), w.GetName()) }

// heldBy returns the runs of a dataset that a process has, or had when it ended.
func (q *Queue) heldBy(dataset string, p process) (held []coordinator.Submission) {
	for _, s := range q.in(dataset, coordinator.Running) {
		if s.Holder == p.holder && cmp.Or(s.Process, s.Worker) == p.name {
			held = append(held, s)
		}
	}
	return held
}

// apart decides whether a process that has other runs may take a run. The process that lost the run takes nothing new
// until it gets that run. It may never return, so one other process of the dataset does the same while the rest
// continue. Callers hold the queue's turn.
func (q *Queue) apart(s coordinator.Submission, p process, held []coordinator.Submission) turn {
	if !s.Lost() || len(held) == 0 {
		return begin
	}
	if cmp.Or(s.Process, s.Worker) == p.name {
		return blocked
	}
	if len(q.heldBy(s.Dataset, q.emptied[s.Dataset])) == 0 {
		q.emptied[s.Dataset] = p // the previous one has the run, or is gone
	}
	if q.emptied[s.Dataset] == p {
		return blocked
	}
	return passed
}
