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

// Hooks are called at certain moments of a round. A hook that blocks delays only its round. AfterCharge is called
// after nodes are sent the charge's entry and before the student is answered.
type Hooks struct {
	BeforeCharge, AfterCharge func(run string, round uint64)
	// Votes receives the histograms behind a release of votes before the charge. They are PRIVATE: results computed
	// from them must not leave the aggregator.
	Votes func(run string, round uint64, counts []int64, release *conclavev1.NoisyVotes)
	// Sums receives the sums behind a release, without noise. They are PRIVATE, too.
	Sums func(run string, round uint64, counts []int64)
	// Now is the clock that ends studies; nil uses the system clock.
	Now func() time.Time
}

// Options are what rounds need. All but Tracer, Hooks and Faults are required.
type Options struct {
	Store    *coordinator.Store
	Lead     *coordinator.Leadership
	Lifetime *lifetime.Lifetime
	Datasets map[string]*Dataset
	Parse    Parse
	// MayAsk returns nil if a caller, perhaps with a claim, may ask in a run, which may be queued.
	MayAsk func(run, opener, claim string, by certs.Identity) error
	// Requester names the student that wants a run, which may be queued.
	Requester func(run, opener string) string
	Limits
	// Sign signs a statement with the aggregator's certificate.
	Sign func(attest.Statement) (attest.Signature, error)
	// Reload updates the revocation list.
	Reload  func() error
	Metrics metrics.Rounds
	Audit   peer.AuditLog
	Tracer  *tracing.Tracer
	Log     *zap.Logger
	Hooks   Hooks
	Faults  Faults
}

// Limits bound what a student may open and ask.
type Limits struct {
	// MostOpen bounds a student's open runs.
	MostOpen int
	// MostRuns bounds the runs that a student ever opened.
	MostRuns int
	// MostEntries bounds the plan entries of all runs that a student ever opened on a dataset.
	MostEntries int
	// MostQuestions bounds a student's questions that were ever charged.
	MostQuestions int
	// LeastDeadline is the shortest deadline of a run's rounds.
	LeastDeadline time.Duration
}

// Faults inject errors into a release and its charge, which tests of the audit must find.
type Faults struct {
	Distort     func(Question) Question
	Undercharge func(privacy.Use) privacy.Use
}

// Rounds answers the rounds of all runs.
type Rounds struct {
	Options
	Room     *peer.Room    // memory used per student
	attempts atomic.Uint64 // numbers executions

	mu   sync.Mutex
	runs map[string]*run // open runs in use; a run's spec never changes, so it is read once

	opening sync.Mutex // orders run openings
	// opened has all runs ever opened: as read from etcd at the first need, with this server's later changes. It is
	// nil before.
	opened map[string]Opened
	// questions counts the questions of each student's runs; it is set together with opened.
	questions map[string]uint64
}

// New returns rounds without an open one.
func New(o Options) *Rounds {
	return &Rounds{Options: o, Room: peer.NewRoom(peer.MostRoom), runs: map[string]*run{}}
}

// Now is the time by which studies end.
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
