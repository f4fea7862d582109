// Package node is the node of a site: it keeps the site's records, splits
// them once into disjoint partitions, one for each teacher, and answers the
// aggregator's rounds with votes and bounded sums. How a question is answered
// is for its kind, see package question; the node is given the kinds it knows.
//
// Start with [LoadConfig], [New] and [Node.Run]. Where several sites must be
// checked before one is started, use [ReadSite] and [Site.Node] in place of
// [New]. A node only dials out, but for the probes and metrics that its own site may
// ask for (Config.HTTP).
//
// What leaves a node: its names, its number of teachers, a keyed fingerprint
// of its partition manifest, votes, the sums that a round asks for, and
// refusals, which are about the question and never depend on the records. Votes
// and raw sums are private: they go to the aggregator, which adds noise, over
// TLS to a peer whose certificate says aggregator. A node does not add noise
// itself and does not hide from the aggregator how its teachers vote.
package node

import (
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/question"
)

// Node answers the questions about one process's part of a site's records. It answers one
// aggregator at a time: its methods are not safe for use by several goroutines.
type Node struct {
	cfg Config
	log *zap.Logger
	// kinds are the questions that the node answers, site what they see of it.
	kinds question.Registry
	site  *question.Site
	// manifest says which partitions the teachers were trained on.
	manifest storedManifest
	// ledger is what the node was told of the dataset's ledger.
	ledger *ledgerHead
	// policy stands before all answers.
	policy *policy
	// masks are the node's part in masked runs.
	masks *masks
	// watch is for the site's operator.
	watch *watch
	// peer is the aggregator at the other end of the stream.
	peer peerRecord
	// worked says that something was answered on the stream.
	worked bool
}

// New reads the site's records, assigns them to partitions and checks these
// against the manifest of earlier starts. It fails when the data, the key, the
// schema or the number of teachers changed: disjoint partitions are promised
// for the life of the dataset.
func New(cfg Config, kinds question.Registry, log *zap.Logger) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	site, err := ReadSite(cfg, kinds, func(odd string) { log.Warn("about the data", zap.String("warning", odd)) })
	if err != nil {
		return nil, err
	}
	return site.Node(cfg.Aggregator, log)
}
