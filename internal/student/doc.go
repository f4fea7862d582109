// Package student is the student's side of the wire: it opens a run at the aggregator, asks its rounds and waits for
// their releases through lost connections, restarts of the aggregator and missing quorums.
//
// Start with [Dial], then [Client.OpenRun] and [Client.Ask]. Package pipeline is what learns from releases.
//
// A student never sees a vote, a raw sum or a real record. It guarantees nothing about the releases' privacy: that is
// the aggregator's part, and the ledger that [Client.Ledger] reads lets anybody recompute it.
package student
