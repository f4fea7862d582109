package aggregator

import (
	"bytes"
	"context"
	"encoding/hex"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/payload"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// While a server collects answers, or is suspended before its charge, another one may charge the round. The student
// then gets that answer, and neither audit log nor metrics count it as this server's release. An answer to another
// question is not returned.
func TestRoundChargedByAnotherMeanwhile(t *testing.T) {
	t.Parallel()
	for _, other := range []bool{false, true} {
		var c *cluster
		var spec *conclavev1.RunSpec
		before := func(_ string, round uint64) {
			asked := roundtest.VoteRound(spec.Name, round, 4)
			if other {
				asked.Params[40] ^= 1
			}
			digest := digestOf(t, asked)
			raw, err := stable(&conclavev1.Release{
				Run: spec.Name, Round: round, Teachers: 5, QuestionSha256: digest[:],
				Answer: &conclavev1.Release_Votes{Votes: &conclavev1.NoisyVotes{Classes: 2, Labels: []int32{1, 1, 0, 1},
					Histogram: []int64{1, 7, 2, 6, 5, 3, 0, 8}}},
			})
			if err != nil {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
			defer cancel()
			_, _, err = c.server.store.Charge(ctx, c.server.lead, coordinator.Charge{
				Question: coordinator.Question{
					Run: spec.Name, Round: round, Digest: hex.EncodeToString(digest[:]),
					Use: privacy.Use{Queries: 4, Answered: 4},
				},
				Release: raw,
			})
			if err != nil {
				t.Error(err)
			}
		}
		path, change := observed(t)
		c = newCluster(t, Options{Hooks: Hooks{BeforeCharge: before}}, change)
		student := c.student(t)
		spec, _ = student.open(t, c.dataset(), nil)
		c.node(t, hello(spec.Dataset, "north", "a", 8), roundtest.Votes(8, roundtest.Alternating))
		release, err := student.ask(testkit.Within(t), roundtest.VoteRound(spec.Name, 0, 4), nil)
		want := auditlog.Repeated
		if other {
			roundtest.WantStatus(t, err, codes.FailedPrecondition, "round 0", spec.Name, "another question")
			want = auditlog.Refused
		} else {
			testkit.Must(t, err)
			if release.GetTeachers() != 5 || release.GetLedgerSeq() != 4 {
				t.Errorf("handed out is %v", release)
			}
		}
		found := 0
		for _, e := range auditEntries(t, path) {
			switch e.Event {
			case want:
				found++
			case auditlog.Released:
				t.Errorf("the audit log has a release of this server: %+v", e)
			}
		}
		if found != 1 {
			t.Errorf("the audit log has %d lines of %s, want 1", found, want)
		}
		metrics := scrape(t, c.server.MonitorAddr().String())
		for name, n := range metrics {
			if n != 0 && bytes.HasPrefix([]byte(name), []byte("conclave_rounds_released_total")) {
				t.Errorf("%s is %v", name, n)
			}
		}
		if n := metrics["conclave_rounds_repeated_total"]; (n == 1) == other {
			t.Errorf("conclave_rounds_repeated_total is %v", n)
		}
		if entries := student.ledger(t, spec.Name); len(entries) != 1 {
			t.Errorf("the ledger has %v", entries)
		}
	}
}

// digestOf is the hash of a round's content.
func digestOf(t *testing.T, r *conclavev1.Round) [32]byte {
	var a payload.Assembly
	part := &conclavev1.RoundPart{Run: r.GetRun(), Round: r.GetNumber(), Parts: 1,
		Data: testkit.Value(proto.Marshal(r))}
	testkit.Must(t, a.Add(part))
	return testkit.Value(a.Payload()).Digest
}

// stable returns the one serialized form that is stored and hashed.
func stable(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}
