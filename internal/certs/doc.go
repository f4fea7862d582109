// Package certs says which identity a certificate of a Conclave cluster has, and where its PEM files are. Below it
// are
//
//   - authority, which issues and revokes certificates,
//   - request, with which a site asks for one and keeps its key,
//   - tlsconfig, the TLS settings of the roles,
//   - pemfile, which reads and writes the files.
//
// A folder of an authority has
//
//	ca.crt, ca.key                  the authority; keep ca.key away from the machines
//	aggregator-<name>.crt, .key     a server that nodes and students dial
//	node-<name>.crt, .key           a node; <name> is its site
//	student-<name>.crt, .key        a student
//	issued.jsonl                    the register of what was issued and revoked
//	revoked.crl                     the signed revocation list
//
// The identity of a peer is a URI in its certificate, conclave://<role>/<name>; [PeerIdentity] reads it from an
// established connection.
//
// # What it does not promise
//
// Revocation takes effect on servers that have loaded the new list. Keys are stored without a passphrase and
// protected only by file permissions (0600). Certificates of another authority work, too, if they have the URI and
// the right key usages.
package certs
