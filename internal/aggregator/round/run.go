package round

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/lifetime"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/aggregator/spec"
	"github.com/conclave-dp/conclave/internal/auditlog"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

type run struct {
	spec    *spec.Spec
	dataset *Dataset
	by      string // who first opened it

	turn lifetime.Turn // held to decide about the run's rounds
	// closed means that no new round may be asked. Only this server closes runs while it leads. Guarded by turn.
	closed bool
	// current is the run's latest execution. Guarded by turn.
	current *Execution

	cache cache
	// again counts how often nodes were asked again for sums of released rounds.
	again atomic.Int64
}

// open returns the execution that is not over yet, or nil. Callers hold the turn.
func (r *run) open() *Execution {
	if r.current != nil && r.current.finished() {
		r.current = nil
	}
	return r.current
}

// settle ends an open execution that nobody waits for, and fails if somebody waits. Callers hold the turn.
func (r *run) settle(ctx context.Context) error {
	open := r.open()
	if open == nil {
		return nil
	}
	if !open.idle() {
		return fault.Refusedf("round %d of run %q is open and a caller waits for it; wait until it has ended",
			open.key.Number, open.key.Run)
	}
	return open.end(ctx)
}

// run returns a run that this or an earlier server opened.
func (rs *Rounds) run(ctx context.Context, name string) (*run, error) {
	rs.mu.Lock()
	r := rs.runs[name]
	rs.mu.Unlock()
	if r != nil {
		return r, nil
	}
	if err := spec.CheckName("run", name); err != nil {
		return nil, err
	}
	record, err := rs.Store.Run(ctx, name)
	if err != nil {
		return nil, err
	}
	if record.Removed {
		return nil, fmt.Errorf("%w: %q was removed", coordinator.ErrNoRun, name)
	}
	s, err := spec.Parse(record.Spec)
	if err != nil {
		return nil, err
	}
	d, err := rs.Dataset(record.Dataset)
	if err != nil {
		return nil, err
	}
	r = &run{spec: s, dataset: d, by: record.By, turn: lifetime.NewTurn(), closed: record.Closed}
	if record.Closed {
		return r, nil // only stored answers can be asked, so nothing is cached
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if faster, ok := rs.runs[name]; ok {
		return faster, nil
	}
	rs.runs[name] = r
	return r, nil
}

// Open opens a run with a checked spec, or finds it again. claim is the claim of the run's worker, or empty.
func (rs *Rounds) Open(ctx context.Context, by *peer.Session, claim string, s *spec.Spec, raw []byte) (
	*conclavev1.OpenRunResponse, error) {
	name := s.PB.GetName()
	d, err := rs.Dataset(s.PB.GetDataset())
	if err != nil {
		return nil, err
	}
	existing, err := rs.register(ctx, coordinator.Run{
		Name: name, Dataset: d.Record.Name, Spec: raw, Budget: s.Budget, Plan: s.Plan, By: by.Identity.Name,
		Claim: claim, Masked: s.Masked, Facts: s.Facts(),
	}, by.Identity, s.Deadline)
	if err != nil {
		return nil, err
	}
	r, err := rs.run(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := r.turn.Lock(ctx); err != nil {
		return nil, err
	}
	closed := r.closed
	r.turn.Unlock()
	record, err := rs.Store.Run(ctx, name)
	if err != nil {
		return nil, err
	}
	manifest, err := hex.DecodeString(record.Manifest)
	if err != nil {
		return nil, fmt.Errorf("read the end of run %q: %w", name, err)
	}
	rs.Log.Info("run opened", zap.String("run", name), zap.String("dataset", d.Record.Name),
		zap.String("student", by.Identity.Name), zap.Bool("existing", existing), zap.Bool("closed", closed),
		zap.Float64("epsilon", s.Budget.Epsilon), zap.Float64("delta", s.Budget.Delta),
		zap.Uint64("rounds", record.Releases))
	_ = rs.Audit.Write(by.Caller, auditlog.Entry{
		Event: auditlog.RunOpened, Dataset: d.Record.Name, Run: name, Teachers: s.PB.GetTeachers(),
		Study: auditlog.StudyOf(s.Study.Named()),
	})
	return &conclavev1.OpenRunResponse{
		TeachersLive: d.Teachers(), Rounds: record.Releases, EpsilonSpent: record.EpsilonSpent, Closed: closed,
		ManifestSha256: manifest,
	}, nil
}

// DatasetOf returns the dataset of a run, and who opened it.
func (rs *Rounds) DatasetOf(ctx context.Context, run string) (d *Dataset, opener string, err error) {
	r, err := rs.run(ctx, run)
	if err != nil {
		return nil, "", err
	}
	return r.dataset, r.by, nil
}

// Waiting is how many requests wait for the open round of a run, 0 without an open round.
func (rs *Rounds) Waiting(ctx context.Context, run string) (n int) {
	rs.look(ctx, run, func(open *Execution) { n = open.waiters })
	return n
}

// Halted reports whether a run has an open round that waits for a quorum.
func (rs *Rounds) Halted(ctx context.Context, run string) (halted bool) {
	rs.look(ctx, run, func(open *Execution) { halted = open.progress.GetWaitingForQuorum() })
	return halted
}

// Answered is the number of teachers that have answered the open round of a run. It reveals the speed of nodes and
// never leaves the aggregator.
func (rs *Rounds) Answered(ctx context.Context, run string) (n uint32) {
	rs.look(ctx, run, func(open *Execution) { n = open.participants.answered })
	return n
}

// look calls see with the open round of a run, if any, under its lock.
func (rs *Rounds) look(ctx context.Context, run string, see func(open *Execution)) {
	r, err := rs.run(ctx, run)
	if err != nil || r.turn.Lock(ctx) != nil {
		return
	}
	defer r.turn.Unlock()
	if open := r.open(); open != nil {
		open.mu.Lock()
		defer open.mu.Unlock()
		see(open)
	}
}

// Cached reports whether the sums of a round are cached.
func (rs *Rounds) Cached(ctx context.Context, run string, round uint64) bool {
	r, err := rs.run(ctx, run)
	if err != nil {
		return false
	}
	_, cached := r.cache.get(round)
	return cached
}

// Close ends a run unless a request waits for its open round, with the SHA-256 of the run's list of files. It returns
// the ledger head, and the SHA-256 from the first time that the run was closed.
func (rs *Rounds) Close(ctx context.Context, by *peer.Session, claim, name, manifest string) (head, sealed string,
	err error) {
	r, err := rs.run(ctx, name)
	if err != nil {
		return "", "", err
	}
	if err := r.turn.Lock(ctx); err != nil {
		return "", "", err
	}
	defer r.turn.Unlock()
	if err := rs.MayAsk(name, r.by, claim, by.Identity); err != nil {
		return "", "", err
	}
	if err := r.settle(ctx); err != nil {
		return "", "", err
	}
	if head, sealed, err = rs.Store.CloseRun(ctx, rs.Lead, name, manifest, by.Identity.Name); err != nil {
		return "", "", err
	}
	rs.closed(r)
	rs.Log.Info("run closed", zap.String("run", name), zap.String("ledger_head", head))
	_ = rs.Audit.Write(by.Caller, auditlog.Entry{
		Event: auditlog.RunClosed, Dataset: r.dataset.Record.Name, Run: name,
		Charge: auditlog.Charge{LedgerHash: head},
	})
	return head, sealed, nil
}

// EndRun stops new rounds of a run and ends the open one, even if somebody waits for it. A round that is being
// charged finishes. The returned function is told whether the run was closed, and unlocks the run. A run that was
// never opened has no rounds.
func (rs *Rounds) EndRun(ctx context.Context, name string) (closed func(bool), err error) {
	r, err := rs.run(ctx, name)
	if errors.Is(err, coordinator.ErrNoRun) {
		return func(bool) {}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := r.turn.Lock(ctx); err != nil {
		return nil, err
	}
	if open := r.open(); open != nil {
		if err := open.end(ctx); err != nil {
			r.turn.Unlock()
			return nil, err
		}
	}
	return func(closed bool) {
		if closed {
			rs.closed(r)
		}
		r.turn.Unlock()
	}, nil
}

// headTimeout bounds the reading of the ledger head for nodes.
const headTimeout = 5 * time.Second

// closed handles the end of a run: its nodes have nothing left to decide, and receive the ledger head, which no later
// round would bring. Callers hold the run's turn.
func (rs *Rounds) closed(r *run) {
	r.closed = true
	r.cache.put(rs.Room, nil, "", 0)
	rs.dropped(r.spec.PB.GetName())
	ctx, cancel := context.WithTimeout(rs.Lifetime.Leading(), headTimeout)
	defer cancel()
	if err := rs.tell(ctx, r.dataset, nil); err != nil { // the next entry brings what is missing
		rs.Log.Warn("could not send the ledger head to nodes", zap.String("dataset", r.dataset.Record.Name),
			zap.Error(err))
	}
	over, err := peer.Encode(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Withdraw{
		Withdraw: &conclavev1.Withdraw{Run: r.spec.PB.GetName(), Over: true},
	}})
	if err != nil {
		rs.Log.Error("tell nodes that a run has ended", zap.String("run", r.spec.PB.GetName()), zap.Error(err))
		return
	}
	peer.RunOver(r.dataset.Live(), r.spec.PB.GetName(), over)
}

// HeadOf is a ledger head in the form sent to nodes. It is nil for the first entry, the dataset's own, because
// nothing was spent yet.
func HeadOf(m coordinator.LedgerHead) *conclavev1.LedgerHead {
	hash, err := hex.DecodeString(m.Hash)
	if m.Seq <= 1 || err != nil {
		return nil
	}
	return &conclavev1.LedgerHead{Seq: m.Seq, Hash: hash}
}
