// Package aggregator is the server between the nodes of the sites and the
// student. It passes a student's round on to every node, collects the votes
// (or sums) of their teachers, turns them into a noisy release, charges the
// ledger in etcd and only then answers.
//
// Start it with New, then Serve:
//
//	config, err := aggregator.LoadConfig("aggregator.yaml")
//	...
//	server, err := aggregator.New(ctx, config, aggregator.Options{Logger: logger})
//	...
//	defer server.Close()
//	err = server.Serve(ctx)
//
// # How the pieces fit
//
// A dataset holds the nodes connected for it. A node is one stream: a handler
// with one goroutine that receives, and one at a time that sends; a few of these
// send a round to all nodes. An execution is one round being answered; it looks
// at the nodes of its dataset whenever something changed, so that joining,
// leaving and answering need no order. A question (votes or a sum) knows how to check what a node sent, what the
// release costs at worst, and how to draw it.
//
// # What it promises
//
//   - A round that could pass the budget of its run or of its dataset is
//     refused before any node sees it.
//   - A release is charged durably before it is answered. Asking the same
//     question of (run, round) again returns the same bytes and charges nothing,
//     also after a crash. Another question for a released round is refused.
//   - A malformed answer of a node is rejected by name and never counted; a
//     node is counted once in a round, and one teacher moves a count by at most
//     one. Who sends such answers again and again is put out for a while.
//   - Logs, metrics, the audit log and errors hold no vote, no histogram and no sum,
//     and no metric counts or times the passes of a fit.
//
// # What it does not promise
//
// The aggregator sees the votes in the clear. That partitions of different
// nodes hold no common privacy unit is for the sites to see to; the
// aggregator only holds each node to the manifest it first came with. A
// repeated question is recognized by its content (digestOf), not by who asks:
// every student that may call this aggregator can have the release of any round
// whose question it knows.
package aggregator
