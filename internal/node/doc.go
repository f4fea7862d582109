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
