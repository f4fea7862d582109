// Package sitepolicy decides what a site lets its node answer: by the site's policy file,
// which people at the site write, and by a ledger of the site's own, which counts what
// the node's records have been charged with.
//
// Begin with [New], which takes the paths of both; ask [Enforcer.Ask] before a round is worked
// on and [Enforcer.Charge] before its answer leaves. Whatever cannot be read, understood or
// written means that nothing is answered.
//
// The limit is the site's, whatever the aggregator allows. It counts what the aggregator
// says that a round costs, and so believes it that the noise is added: it protects from
// too many runs, from other parameters than were agreed on, from operators' mistakes and
// from curious students, and not from an aggregator that lies.
//
// It knows nothing of records, models or the wire.
package sitepolicy
