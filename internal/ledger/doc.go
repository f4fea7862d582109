// Package ledger is the log of a dataset: what was opened, released and closed, and what it cost, one [Entry] per
// line, each chained to the previous one by its hash.
//
// [Entry.Seal] writes an entry, [Verify] recomputes a whole ledger without trusting it, and [VerifyStrict] also
// refuses what no aggregator writes. The costs and the rule that admits a release are those of package privacy.
//
// A ledger is a hash chain, not a signature. The holder of the only copy can write another one from the start. To
// detect a ledger whose last runs were dropped, compare its head with the one in the release certificate.
package ledger
