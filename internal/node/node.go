package node

import (
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/monitor"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/tracing"
	"github.com/conclave-dp/conclave/partition"
)

// Node answers the questions about one process's part of a site's records. It answers one aggregator at a
// time: its methods are not safe for use by several goroutines.
type Node struct {
	cfg Config
	log *zap.Logger
	// kinds are the questions that the node answers, site what they see of it.
	kinds question.Registry
	site  *question.Site
	// manifest says which partitions the teachers were trained on.
	manifest *partition.Manifest
	// kept is set once the manifest is known to be stored.
	kept bool
	// ledger is what the node was told of the dataset's ledger.
	ledger *ledgerMark
	// worked says that something was answered on the stream.
	worked bool

	// watched, trail and level are for the site's operator; peer and its certificate are
	// the aggregator at the other end of the stream.
	watched               *watched
	trail                 *auditlog.Log
	tracer                *tracing.Tracer
	level                 *zap.AtomicLevel
	monitor               atomic.Pointer[monitor.Server]
	peer, peerCertificate string

	// guard stands before all answers, nil without a policy; waiting holds the runs that
	// wait for the site, with the round that was asked.
	guard     *sitepolicy.Guard
	waitingMu sync.Mutex
	waiting   map[string]waitingRun
}

// New reads the site's records, assigns them to partitions and checks these
// against the manifest of earlier starts. It fails when the data, the key, the
// schema or the number of teachers changed: disjoint partitions are promised
// for the life of the dataset.
func New(cfg Config, kinds question.Registry, log *zap.Logger) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	site, err := ReadSite(cfg, kinds)
	if err != nil {
		return nil, err
	}
	return site.Node(cfg.Aggregator, log)
}
