// Package node is the node of a site. It has the site's records, splits them once into disjoint partitions, one per
// teacher, and answers the aggregator's rounds with votes and bounded sums. The kind of a question determines how it
// is answered, see package question; the caller passes the known kinds.
//
// Start with [LoadConfig], [New] and [Node.Run]. To check several sites before one is started, use [ReadSite] and
// [Site.Node] instead of [New]. A node only dials out, except that it serves probes and metrics for its own site
// (Config.HTTP).
//
// These leave a node: its names, its number of teachers, a keyed fingerprint of its partition manifest, votes,
// requested sums, and refusals, which are about the question and never depend on the records. Votes and raw sums are
// private: they go over TLS to a peer with an aggregator certificate, which adds noise. A node adds no noise itself
// and does not hide its teachers' votes from the aggregator.
package node

import (
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/statelock"
)

// Node answers questions about one process's part of a site's records. It answers one aggregator at a time, and is
// not safe for concurrent use.
type Node struct {
	cfg Config
	log *zap.Logger
	// kinds are the questions that the node answers, site what they can access.
	kinds question.Registry
	site  *question.Site
	// manifest records the partitions that the teachers were trained on.
	manifest storedManifest
	// ledger is the known head of the dataset's ledger.
	ledger *ledgerHead
	// policy is asked before all answers.
	policy *policy
	// masks is the node's state in masked runs.
	masks *masks
	// watch is for the site's operator.
	watch *watch
	// peer is the aggregator at the other end of the stream.
	peer peerRecord
	// divides is set while records are divided on the disk, and afterwards.
	divides atomic.Bool
	// worked is set once something was answered on the stream.
	worked bool
}

// New reads the site's records, assigns them to partitions and compares these with the manifest of earlier starts. It
// fails if the data, the key, the schema or the number of teachers changed: disjoint partitions are guaranteed for
// the life of the dataset.
func New(cfg Config, kinds question.Registry, log *zap.Logger) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := statelock.Check(cfg.State); err != nil { // before all records are read
		return nil, err
	}
	site, err := ReadSite(cfg, kinds, func(odd string) { log.Warn("about the data", zap.String("warning", odd)) })
	if err != nil {
		return nil, err
	}
	return site.Node(cfg.Aggregator, log)
}
