package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
)

// State is the state of a run in the queue.
type State string

// The states of a run in the queue. The last four are final.
const (
	Waiting     State = "waiting"
	Running     State = "running" // a worker has it
	Done        State = "done"
	OutOfBudget State = "out_of_budget"
	Failed      State = "failed"
	Cancelled   State = "cancelled"
)

// Final reports whether a run in this state never leaves it.
func (s State) Final() bool { return s != Waiting && s != Running }

const (
	// MaxRunFile and MaxSchemaFile bound the files of a queued run, in bytes: together with their records they fit a
	// request that every etcd accepts.
	MaxRunFile    = 64 << 10
	MaxSchemaFile = 1 << 20
	// MaxStudyFile bounds the document of its study.
	MaxStudyFile = 32 << 10
	// maxReason bounds the reason for the end of a run, in bytes, and maxResults the number of files that it names.
	maxReason  = 512
	maxResults = 32
)

// Submission is a run that is or was in the queue of its dataset. Its name is unique among all runs.
type Submission struct {
	Name     string `json:"name"`
	Dataset  string `json:"dataset"`
	Pipeline string `json:"pipeline"`
	// Spec is the serialized spec that the run was submitted with.
	Spec []byte `json:"spec"`
	// Budget and Plan are what the run will be opened with. The plan may still change; the budget may not.
	Budget privacy.Budget `json:"budget"`
	Plan   privacy.Plan   `json:"plan"`
	// By is the student that submitted it.
	By string `json:"by"`
	// RunFile is the SHA-256 of the run.yaml, in hex.
	RunFile string `json:"run_file"`
	Progress
	// Order is lower for earlier submissions. The store fills it in.
	Order int64 `json:"-"`
}

// Files are the files that a worker needs for a run, byte for byte: its run.yaml, its dataset's schema, and the
// document of its study, nil if it has none.
type Files struct{ Run, Schema, Study []byte }

// Progress is how far a submission has come, as the store fills it in. Times are as in the ledger.
type Progress struct {
	Submitted string `json:"submitted"`
	State     State  `json:"state"`
	// Reason says why the run ended, or why it waits again.
	Reason string `json:"reason,omitempty"`
	// Worker is the current or last worker of the run; Holder is the name in its certificate.
	Worker string `json:"worker,omitempty"`
	Holder string `json:"holder,omitempty"`
	// Claim names the time for which the worker has the run. A worker with another claim is too late.
	Claim string `json:"claim,omitempty"`
	// Claims counts how often workers took it.
	Claims uint32 `json:"claims,omitempty"`
	// Process is the worker's process, which may have several workers.
	Process string `json:"process,omitempty"`
	// Losses counts how often its worker was lost since LostAt rounds were released, LossesEver how often in total.
	Losses     uint32   `json:"losses,omitempty"`
	LostAt     uint64   `json:"lost_at,omitempty"`
	LossesEver uint32   `json:"losses_ever,omitempty"`
	Claimed    string   `json:"claimed,omitempty"`
	Ended      string   `json:"ended,omitempty"`
	Results    []Result `json:"results,omitempty"`
}

// Lost says that a worker of the run was ever lost.
func (s Submission) Lost() bool { return s.Losses > 0 }

// Result is a file that a run left on its worker's disk.
type Result struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

func (s *Store) submissionKey(run string) string { return s.config.Prefix + "queue/" + run }
func (s *Store) runFileKey(run string) string    { return s.config.Prefix + "run-files/" + run }
func (s *Store) studyKey(run string) string      { return s.config.Prefix + "run-studies/" + run }
func (s *Store) schemaKey(dataset string) string { return s.config.Prefix + "schemas/" + dataset }

// Submit puts a run at the end of its dataset's queue, with its files. The schema must be the dataset's: the caller has
// compared its hash. It returns whether the run was there before, with the same file from the same submitter, and has
// not ended. Errors match ErrRunExists, ErrNoDataset or ErrTooLarge. The budget is checked when the run's turn comes.
func (s *Store) Submit(ctx context.Context, lead *Leadership, q Submission,
	files Files) (stored Submission, existing bool, err error) {
	const op = "submit run"
	if err := checkName("run", q.Name); err != nil {
		return q, false, err
	}
	if err := checkName("dataset", q.Dataset); err != nil {
		return q, false, err
	}
	if len(files.Run) > MaxRunFile || len(files.Schema) > MaxSchemaFile || len(files.Study) > MaxStudyFile {
		return q, false, fmt.Errorf("%s %q: %w: run.yaml has %d bytes, the schema %d and the study %d; the maximum "+
			"is %d, %d and "+
			"%d", op, q.Name, ErrTooLarge, len(files.Run), len(files.Schema), len(files.Study), MaxRunFile,
			MaxSchemaFile, MaxStudyFile)
	}
	q.Progress = Progress{Submitted: ledger.FormatTime(s.now()), State: Waiting}
	value, err := encode(q)
	if err != nil {
		return q, false, err
	}
	err = update(func() (bool, error) {
		kvs, _, err := s.read(ctx, op, s.submissionKey(q.Name), s.runKey(q.Name), s.datasetKey(q.Dataset),
			s.schemaKey(q.Dataset))
		if err != nil {
			return false, err
		}
		if existing = kvs[0] != nil; existing {
			if stored, err = decodeSubmission(kvs[0]); err != nil {
				return false, err
			}
			err := stored.again(q)
			return err == nil, err
		}
		if kvs[1] != nil {
			return false, fmt.Errorf("%w: run %q was opened by a student; choose another name for the new run",
				ErrRunExists, q.Name)
		}
		if kvs[2] == nil {
			return false, fmt.Errorf("%s %q: %w: %q", op, q.Name, ErrNoDataset, q.Dataset)
		}
		puts := []clientv3.Op{clientv3.OpPut(s.submissionKey(q.Name), value),
			clientv3.OpPut(s.runFileKey(q.Name), string(files.Run))}
		if len(files.Study) > 0 {
			puts = append(puts, clientv3.OpPut(s.studyKey(q.Name), string(files.Study)))
		}
		conditions := []clientv3.Cmp{absent(s.submissionKey(q.Name)), absent(s.runKey(q.Name))}
		if kvs[3] == nil { // one for all runs, because a dataset's schema never changes
			puts = append(puts, clientv3.OpPut(s.schemaKey(q.Dataset), string(files.Schema)))
			conditions = append(conditions, absent(s.schemaKey(q.Dataset)))
		}
		return s.commit(ctx, op, lead, conditions, puts...)
	})
	if err != nil || existing {
		return stored, existing, err
	}
	stored, err = s.Submission(ctx, q.Name)
	return stored, false, err
}

// again reports whether a submission repeats q, whose answer was lost.
func (s Submission) again(q Submission) error {
	switch {
	case s.By != q.By:
		return fmt.Errorf("%w: run %q was not submitted by %q; choose another name for the new "+
			"run", ErrRunExists, q.Name,
			q.By)
	case s.RunFile != q.RunFile:
		return fmt.Errorf("%w: run %q was submitted with another run.yaml (%s); choose another name for the new run",
			ErrRunExists, q.Name, s.State)
	case !bytes.Equal(s.Spec, q.Spec):
		return fmt.Errorf("%w: run %q was submitted with another spec (%s); choose another name for the new run",
			ErrRunExists, q.Name, s.State)
	case s.State.Final():
		return fmt.Errorf("%w: run %q was submitted before and has ended (%s); to run it again choose another name",
			ErrRunExists, q.Name, s.State)
	}
	return nil
}

func decodeSubmission(kv *mvccpb.KeyValue) (Submission, error) {
	q, err := decode[Submission](kv)
	q.Order = kv.CreateRevision
	return q, err
}

// Submission returns a queued run; the error matches ErrNoRun if there is none.
func (s *Store) Submission(ctx context.Context, name string) (Submission, error) {
	if err := checkName("run", name); err != nil {
		return Submission{}, err
	}
	kvs, _, err := s.read(ctx, "read a run of the queue", s.submissionKey(name))
	if err != nil {
		return Submission{}, err
	}
	if kvs[0] == nil {
		return Submission{}, fmt.Errorf("%w in the queue: %q", ErrNoRun, name)
	}
	return decodeSubmission(kvs[0])
}

// Submissions returns all runs that were ever in a queue, oldest first.
func (s *Store) Submissions(ctx context.Context) ([]Submission, error) {
	kvs, err := s.list(ctx, "read the queue", s.config.Prefix+"queue/")
	if err != nil {
		return nil, err
	}
	all := make([]Submission, len(kvs))
	for i, kv := range kvs {
		if all[i], err = decodeSubmission(kv); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b Submission) int { return int(a.Order - b.Order) })
	return all, nil
}

// SubmittedFiles returns the files of a queued run. Its run.yaml and its study are nil after the run has ended.
func (s *Store) SubmittedFiles(ctx context.Context, q Submission) (files Files, err error) {
	kvs, _, err := s.read(ctx, "read a run's files", s.runFileKey(q.Name), s.schemaKey(q.Dataset), s.studyKey(q.Name))
	if err != nil {
		return files, err
	}
	if kvs[1] == nil {
		return files, fmt.Errorf("%w: the schema of dataset %q is missing; restore etcd from a backup", ErrCorrupt,
			q.Dataset)
	}
	for i, file := range []*[]byte{&files.Run, &files.Schema, &files.Study} {
		if kvs[i] != nil {
			*file = kvs[i].Value
		}
	}
	return files, nil
}

// moved is the error for a step that the run's state does not allow.
func moved(q Submission, what string) error {
	switch {
	case q.State.Final():
		return fmt.Errorf("%w: run %q cannot be %s: it ended (%s)", ErrQueue, q.Name, what, q.State)
	case q.State == Waiting:
		return fmt.Errorf("%w: run %q cannot be %s: it is waiting", ErrQueue, q.Name, what)
	}
	return fmt.Errorf("%w: run %q cannot be %s: worker %q has claimed it", ErrQueue, q.Name, what, q.Worker)
}

// ErrQueue: a queued run is not in the state that a step needs, or another worker has it.
var ErrQueue = errors.New("not allowed in the queue's current state")

// step changes one queued run. change returns false if there is nothing to write.
func (s *Store) step(ctx context.Context, op string, lead *Leadership, name string,
	change func(*Submission) (bool, error)) (q Submission, err error) {
	err = update(func() (bool, error) {
		var kv *mvccpb.KeyValue
		var err error
		if kv, q, err = s.submission(ctx, op, name); err != nil {
			return false, err
		}
		if write, err := change(&q); err != nil || !write {
			return err == nil, err
		}
		value, err := encode(q)
		if err != nil {
			return false, err
		}
		return s.commit(ctx, op, lead, []clientv3.Cmp{unchanged(kv)}, clientv3.OpPut(string(kv.Key), value))
	})
	return q, err
}

func (s *Store) submission(ctx context.Context, op, name string) (*mvccpb.KeyValue, Submission, error) {
	if err := checkName("run", name); err != nil {
		return nil, Submission{}, err
	}
	kvs, _, err := s.read(ctx, op, s.submissionKey(name))
	if err != nil {
		return nil, Submission{}, err
	}
	if kvs[0] == nil {
		return nil, Submission{}, fmt.Errorf("%s: %w in the queue: %q", op, ErrNoRun, name)
	}
	q, err := decodeSubmission(kvs[0])
	return kvs[0], q, err
}

// Holder is a worker that takes a run.
type Holder struct {
	// Worker is its own name, Process its process, By the name in its certificate. Claim names the time until it ends
	// or returns the run.
	Worker, Process, By, Claim string
}

// Claim gives a waiting run to a worker. Errors match ErrQueue if it does not wait.
func (s *Store) Claim(ctx context.Context, lead *Leadership, name string, h Holder) (Submission, error) {
	return s.step(ctx, "claim run", lead, name, func(q *Submission) (bool, error) {
		switch {
		case q.State == Running && q.Claim == h.Claim: // the answer was lost
			return false, nil
		case q.State != Waiting:
			return false, moved(*q, "claimed")
		}
		q.State, q.Worker, q.Process, q.Holder, q.Claim = Running, h.Worker, h.Process, h.By, h.Claim
		q.Reason = ""
		q.Claims++
		q.Claimed = ledger.FormatTime(s.now())
		return true, nil
	})
}

// GiveBack returns a worker's run to its place in the queue, at the worker's request.
func (s *Store) GiveBack(ctx context.Context, lead *Leadership, name, claim, reason string) (Submission, error) {
	return s.giveBack(ctx, lead, name, claim, reason, func(*Submission) {})
}

// Lose returns a lost worker's run to the queue and counts the loss. The count restarts if the run has released more
// rounds since the last loss.
func (s *Store) Lose(
	ctx context.Context, lead *Leadership, name, claim, reason string, releases uint64,
) (Submission, error) {
	return s.giveBack(ctx, lead, name, claim, reason, func(q *Submission) {
		if releases > q.LostAt {
			q.Losses = 0
		}
		q.Losses, q.LostAt = q.Losses+1, releases
		q.LossesEver++
	})
}

func (s *Store) giveBack(
	ctx context.Context, lead *Leadership, name, claim, reason string, count func(*Submission),
) (Submission, error) {
	return s.step(ctx, "return run", lead, name, func(q *Submission) (bool, error) {
		if q.State == Waiting { // the answer was lost, or no worker had it
			return false, nil
		}
		if q.State != Running || q.Claim != claim {
			return false, moved(*q, "returned")
		}
		count(q)
		q.State, q.Claim, q.Reason = Waiting, "", bounded(reason)
		return true, nil
	})
}

// bounded shortens a reason, which may come from a remote peer, to the stored length.
func bounded(reason string) string {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "..."
	}
	return reason
}
