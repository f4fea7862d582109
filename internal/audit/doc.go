// Package audit tests the privacy claim from outside: it plays the same run a
// thousand times over on two neighbouring datasets, on a real aggregator, and
// asks whether the releases tell the two apart better than the ledger's claim
// allows.
//
// Start with [Run]. It brings up a cluster on loopback: an embedded etcd, an
// aggregator behind TLS 1.3 with client certificates, students that open runs,
// ask and close them, and nodes. The nodes alone are not the real ones: they give
// fixed votes, chosen so that one moved vote shows as much as it can. The two
// worlds differ in the votes of one teacher (or in one unit of the class counts)
// and in nothing else.
//
// In masked runs the nodes are real ones too, and the aggregator is an adversary: what is observed is all that nodes
// send, and what it opens together with sites that collude. See [View].
//
// # What is compared
//
// Each run is one trial, observed as one number: the log-likelihood ratio of
// all its releases under the two worlds, or something that grows with it. By
// Neyman and Pearson the best tests between the worlds are thresholds on it. For
// any event S of an (epsilon, delta)-DP program
//
//	P[S] <= e^epsilon Q[S] + delta, so epsilon >= log((P[S] - delta)/Q[S]),
//
// and with Clopper-Pearson bounds on both probabilities the right side is a
// lower bound on epsilon that is wrong no more often than the confidence says (Jagielski,
// Ullman, Oprea 2020; Nasr et al. 2021). See [LowerBound] for how the event
// is chosen.
//
// The claim is not written down here: it is what privacy.Account proves for the
// events that stand in the ledger for one run.
//
// # What it does not promise
//
// A bound below the claim is no proof of privacy. It says that this test, with
// so many runs, did not see a violation; docs/audit.md says what it can see. Time
// is not looked at, nor is the code of students, and of nodes beyond class counts and masks.
package audit
