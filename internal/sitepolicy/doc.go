// Package sitepolicy decides what a site lets its node answer. It uses the policy file that people at the site write,
// and the site's own ledger, which counts what the node's records have been charged.
//
// Begin with [New], which takes the paths of both; call [Enforcer.Ask] before work on a round and [Enforcer.Charge]
// before its answer leaves. If anything cannot be read, understood or written, nothing is answered.
//
// The limit belongs to the site, whatever the aggregator allows. It counts what the aggregator says that a round
// costs, and so trusts it to add the noise. It protects from too many runs, from other parameters than were agreed
// on, from operators' mistakes and from curious students, but not from an aggregator that lies.
//
// It knows nothing of records, models or the wire.
package sitepolicy
