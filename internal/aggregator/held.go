package aggregator

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// heldScores are the sums of scores of a run, without noise. They are PRIVATE, live in
// the memory of the aggregator that collected them, and nowhere else: another one has to
// collect them again.
type heldScores struct {
	round    uint64
	bound    int64
	sums     []int64
	teachers uint32 // that took part
	voices   map[*standing]nodeID
}

// errNotHeld says that sums have to be collected again; see AskRequest.hold.
func errNotHeld(run string, round uint64) error {
	return faultf(codes.NotFound, "the sums of scores of round %d of run %q are not held here; ask for that round again, to hold them", round, run)
}

// scores returns what is held of a round, nil where it is not.
func (r *run) scores(round uint64) *heldScores {
	r.heldMu.Lock()
	defer r.heldMu.Unlock()
	if r.held == nil || r.held.round != round {
		return nil
	}
	if revokedVoice(r.held.voices) != nil {
		r.held = nil // collected again, without that node
		return nil
	}
	return r.held
}

// hold keeps the sums of an execution that asked for scores.
func (s *Server) hold(e *execution) {
	q, ok := e.question.(*scoreSum)
	r := s.runs.get(e.key.run)
	if !ok || r == nil {
		return
	}
	r.heldMu.Lock()
	defer r.heldMu.Unlock()
	r.held = &heldScores{round: e.key.number, bound: q.bound, sums: q.all(e.counts), teachers: e.takenPart(), voices: e.allHeard()}
}

// letGo drops what is held.
func (r *run) letGo() {
	r.heldMu.Lock()
	defer r.heldMu.Unlock()
	r.held = nil
}

// collectAgain begins to collect the sums of a round that was released, where they are
// not held. It charges nothing and releases nothing but what was. Callers hold the turn.
func (s *Server) collectAgain(ctx context.Context, r *run, p *payload, release *conclavev1.Release) (*execution, error) {
	scores := p.round.GetSum().GetScores()
	if scores == nil || r.closed || r.scores(p.key.number) != nil {
		return nil, nil
	}
	planned, err := r.spec.pays(questionKind(p.round), p.round.GetPlanned())
	if err != nil {
		return nil, err
	}
	q, err := newScoreSum(scores, p.key.number, planned, r.spec, s.options.AllowCoin)
	if err != nil {
		return nil, err
	}
	if p.terms, err = s.terms(ctx, r, p); err != nil {
		return nil, err
	}
	attempt := s.attempts.Add(1)
	parts, err := p.encode(attempt)
	if err != nil {
		return nil, err
	}
	e := newExecution(p, attempt, r.spec, r.dataset, q, parts)
	e.released = proto.Clone(release).(*conclavev1.Release)
	if err := s.launch(e); err != nil {
		return nil, err
	}
	r.current = e
	return e, nil
}
