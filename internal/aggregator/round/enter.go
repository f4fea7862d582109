package round

import (
	"bytes"
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/ledger"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Enter decides about a round. It returns the stored release, the running execution (which the caller must leave), a
// new execution, or a refusal. claim is the claim of the run's worker, or empty.
func (rs *Rounds) Enter(ctx context.Context, p *payload.Payload, claim string) (*Execution, *conclavev1.Release,
	error) {
	r, err := rs.run(ctx, p.Key.Run)
	if err != nil {
		return nil, nil, err
	}
	if err := r.turn.Lock(ctx); err != nil {
		return nil, nil, err
	}
	defer r.turn.Unlock()
	if err := rs.MayAsk(p.Key.Run, r.by, claim, peer.SessionOf(ctx).Identity); err != nil {
		return nil, nil, err
	}
	if open := r.open(); open != nil && open.key == p.Key && open.digest == p.Digest {
		open.attach()
		return open, nil, nil
	}
	release, record, err := rs.stored(ctx, r.dataset, p)
	if err != nil {
		return nil, nil, err
	}
	if release != nil {
		if p.Hold && r.open() == nil {
			e, err := rs.collectAgain(ctx, r, p, release)
			return e, release, err
		}
		return nil, release, nil
	}
	// A restarted student may ask the open round differently, or resume at an earlier one. An open round that nobody
	// waits for then makes room. It may have been charged meanwhile.
	if r.open() != nil {
		if err := r.settle(ctx); err != nil {
			return nil, nil, err
		}
		if release, record, err = rs.stored(ctx, r.dataset, p); release != nil || err != nil {
			return nil, release, err
		}
	}
	e, err := rs.start(ctx, r, record, p)
	return e, nil, err
}

// start checks a round that was never released and starts it; record is its run in etcd. Callers hold the run's turn.
func (rs *Rounds) start(
	ctx context.Context, r *run, record coordinator.Run, p *payload.Payload,
) (*Execution, error) {
	switch {
	case p.Key.Number < record.Releases: // nothing is stored, either
		return nil, &coordinator.ForgottenError{Run: p.Key.Run, Round: p.Key.Number}
	case r.closed:
		return nil, fault.Refusedf("run %q is closed; only its released rounds can be asked again: start its student "+
			"again to rebuild its results from those", p.Key.Run)
	case p.Key.Number > record.Releases:
		return nil, fault.Refusedf("got round %d of run %q, want round %d", p.Key.Number, p.Key.Run,
			record.Releases)
	}
	if err := r.dataset.CheckStudy(p.Key.Run, r.spec.Study, rs.Now()); err != nil {
		return nil, err
	}
	if err := rs.mayAskMore(ctx, record); err != nil {
		return nil, err
	}
	if err := rs.Audit.Check(); err != nil {
		return nil, err
	}
	q, err := rs.Parse(p.Round, r.spec, r.cache.get)
	if err != nil {
		return nil, err
	}
	e, err := rs.newExecution(ctx, r, p, q)
	if err != nil {
		return nil, err
	}
	if err := rs.reserve(ctx, e); err != nil {
		rs.giveRoom(e)
		return nil, err
	}
	rs.trace(ctx, e)
	return rs.launch(r, e)
}

// mostAgain bounds how often a leader collects the sums of a run's released rounds again: nodes do work that nobody
// pays for. A student needs it after a change of leader.
const mostAgain = 16

// collectAgain starts to collect the sums of a released round again if they are not cached. It charges nothing and
// releases nothing new. Callers hold the turn.
func (rs *Rounds) collectAgain(
	ctx context.Context, r *run, p *payload.Payload, release *conclavev1.Release,
) (*Execution, error) {
	if _, cached := r.cache.get(p.Key.Number); cached || r.closed {
		return nil, nil
	}
	q, err := rs.Parse(p.Round, r.spec, r.cache.get)
	if err != nil {
		return nil, err
	}
	if _, ok := q.(Cacher); !ok {
		return nil, nil
	}
	if r.again.Load() >= mostAgain {
		return nil, fault.TooManyf("sums of released rounds of run %q were collected again %d times, the maximum; "+
			"select by a round before you cache another", p.Key.Run, mostAgain)
	}
	e, err := rs.newExecution(ctx, r, p, q)
	if err != nil {
		return nil, err
	}
	e.released = proto.Clone(release).(*conclavev1.Release)
	return rs.launch(r, e)
}

// newExecution makes an execution of a round for the request of ctx. It reserves the room of the student for the
// round's bytes and its counts.
func (rs *Rounds) newExecution(ctx context.Context, r *run, p *payload.Payload, q Question) (*Execution, error) {
	raw, err := marshalStable(r.spec.PB)
	if err != nil {
		return nil, fmt.Errorf("encode the terms of a round: %w", err)
	}
	// Sites decide by the run's stored spec, whose plan says what the answers may cost.
	terms := &conclavev1.RoundTerms{Spec: raw, Requester: rs.Requester(p.Key.Run, r.by)}
	in := inquiry{
		key: p.Key, permit: rs.attempts.Add(1), attempt: rs.attempts.Add(1),
		digest: p.Digest, forget: p.Forget, spec: r.spec,
		planned: int(p.Round.GetPlanned()), dataset: r.dataset, question: q, terms: terms,
		asker: peer.SessionOf(ctx).Caller, student: peer.SessionOf(ctx).Identity.Name, cache: &r.cache,
	}
	if r.spec.Masked != nil {
		in.payload = p // each attempt sends it with its own members
	} else if in.parts, err = p.Encode(in.attempt, terms, nil); err != nil {
		return nil, err
	}
	counts := 8 * q.Length()
	if err := rs.Room.Take(in.student, counts); err != nil {
		return nil, err
	}
	in.room, p.Room = p.Room+counts, 0
	return newExecution(in, nil), nil
}

// giveRoom releases the room of an execution.
func (rs *Rounds) giveRoom(e *Execution) {
	rs.Room.Give(e.student, e.room)
	e.room = 0
}

// stored returns the release of a charged round and its run, or nil. It refuses a round that was released for another
// question, because its answers belong to other records. It also tells nodes of the charge if they were not told
// before.
func (rs *Rounds) stored(ctx context.Context, d *Dataset, p *payload.Payload) (
	*conclavev1.Release, coordinator.Run, error) {
	committed, err := rs.Store.Round(ctx, rs.Lead, p.Key.Run, p.Key.Number)
	if err != nil {
		return nil, coordinator.Run{}, fmt.Errorf("read the rounds of run %q: %w", p.Key.Run, err)
	}
	if !committed.Found {
		return nil, committed.Run, nil
	}
	release, err := readRelease(committed.Release, committed.Entry)
	if err != nil {
		return nil, coordinator.Run{}, err
	}
	if !bytes.Equal(release.QuestionSha256, p.Digest[:]) {
		return nil, coordinator.Run{}, otherQuestion(p.Key)
	}
	if err := rs.tellOf(ctx, d, p.Key, committed.Entry); err != nil {
		return nil, coordinator.Run{}, err
	}
	return release, committed.Run, nil
}

// otherQuestion refuses a round whose stored answer belongs to another question.
func otherQuestion(key payload.Key) error {
	return fault.Refusedf("round %d of run %q was released for another question; continue from the checkpoint that "+
		"asked it, or open a run with another name", key.Number, key.Run)
}

func readRelease(raw []byte, entry ledger.Entry) (*conclavev1.Release, error) {
	release := new(conclavev1.Release)
	if err := proto.Unmarshal(raw, release); err != nil {
		return nil, fmt.Errorf("read a stored release: %w", err)
	}
	complete(release, entry)
	return release, nil
}

// complete adds the fields of the ledger entry that paid for a release. They are not stored, because the entry
// contains the hash of the stored release.
func complete(release *conclavev1.Release, entry ledger.Entry) {
	release.EpsilonSpent = entry.EpsilonSpent
	release.LedgerSeq = entry.Seq
	release.LedgerHash = entry.Hash
}

// marshalStable returns the one serialized form that is stored and hashed.
func marshalStable(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}
