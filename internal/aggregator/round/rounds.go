package round

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/fault"
	"github.com/conclave-dp/conclave/internal/aggregator/lifetime"
	"github.com/conclave-dp/conclave/internal/aggregator/metrics"
	"github.com/conclave-dp/conclave/internal/aggregator/peer"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/tracing"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Hooks are called at named moments of a round. A hook that blocks holds up its round and no
// other. AfterCharge is called once nodes are sent the charge's entry, before the student is answered.
type Hooks struct {
	BeforeCharge, AfterCharge func(run string, round uint64)
	// Votes sees the histograms behind a release of votes, before it is charged. They are
	// PRIVATE: what is computed from them must not leave the aggregator.
	Votes func(run string, round uint64, counts []int64, release *conclavev1.NoisyVotes)
	// Sums sees the sums behind a release before their noise. They are PRIVATE too.
	Sums func(run string, round uint64, counts []int64)
	// Now is the clock by which studies end, nil for the machine's.
	Now func() time.Time
}

// Options are what rounds need. All but Tracer, Hooks and Faults are required.
type Options struct {
	Store    *coordinator.Store
	Lead     *coordinator.Leadership
	Lifetime *lifetime.Lifetime
	Datasets map[string]*Dataset
	Parse    Parse
	// MayAsk says whether a caller, perhaps with a claim, may ask a run, which may be of the queue.
	MayAsk func(run, opener, claim string, by certs.Identity) error
	// Requester names who asks a run, which may be of the queue.
	Requester func(run, opener string) string
	// MostOpen bounds the runs of a student that are open.
	MostOpen int
	// MostRuns bounds the runs that a student ever opened.
	MostRuns int
	// MostEntries bounds the entries of the plans of all runs that a student ever opened on a dataset.
	MostEntries int
	// MostQuestions bounds the questions of a student that were ever charged.
	MostQuestions int
	// LeastDeadline is the shortest deadline of a run's rounds.
	LeastDeadline time.Duration
	// Sign signs a statement by the aggregator's certificate.
	Sign func(attest.Statement) (attest.Signature, error)
	// Reload brings the list of revoked certificates up to date.
	Reload  func() error
	Metrics metrics.Rounds
	Audit   peer.AuditLog
	Tracer  *tracing.Tracer
	Log     *zap.Logger
	Hooks   Hooks
	Faults  Faults
}

// Faults are for tests of the audit, which has to find what they do to a release and to its
// charge.
type Faults struct {
	Distort     func(Question) Question
	Undercharge func(privacy.Use) privacy.Use
}

// Rounds answers the rounds of all runs.
type Rounds struct {
	Options
	Room     *peer.Room    // what is kept for each student
	attempts atomic.Uint64 // numbers executions

	mu   sync.Mutex
	runs map[string]*run // in use and open; a run's spec never changes, so it is read once

	opening sync.Mutex // orders the opening of runs
	// opened are all that there ever were: as etcd had them when they were needed first, and as
	// this server changed them since. nil before.
	opened map[string]Opened
	// questions sums up those of each student's runs; it is there with opened.
	questions map[string]uint64
}

// New returns rounds, none of them open.
func New(o Options) *Rounds {
	return &Rounds{Options: o, Room: peer.NewRoom(peer.MostRoom), runs: map[string]*run{}}
}

// Now is the moment by which studies end.
func (rs *Rounds) Now() time.Time {
	if rs.Hooks.Now != nil {
		return rs.Hooks.Now()
	}
	return time.Now()
}

// Dataset returns a dataset that is served.
func (rs *Rounds) Dataset(name string) (*Dataset, error) {
	d, ok := rs.Datasets[name]
	if !ok {
		return nil, fault.Refusedf("dataset %q is not served here; add it to the aggregator's datasets",
			fault.Word(name))
	}
	return d, nil
}
