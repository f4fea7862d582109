// Package proof says which files a run gave out, who signed for them, and checks all of it: what is proven, by whose
// signature, and what is only stated.
//
// Three files stand beside what is given out. The manifest has the SHA-256 of each file; its own stands in the
// entry of the ledger that closed the run. certificate.json has the guarantee, which follows from the ledger. And
// signatures.json has the ledger's last entry signed by the aggregator and by the sites that followed it, and
// manifest and certificate signed by the student.
package proof
