// Package certs says whom a certificate of a Conclave cluster speaks for, and where its PEM
// files are. Below it are
//
//   - authority, which issues and revokes certificates,
//   - request, by which a site asks for one and keeps its key,
//   - tlsconfig, the TLS settings of the roles,
//   - pemfile, which reads and writes the files.
//
// A folder of an authority holds
//
//	ca.crt, ca.key                  the authority; keep ca.key away from the machines
//	aggregator-<name>.crt, .key     a server that nodes and students dial
//	node-<name>.crt, .key           a node; <name> is its site
//	student-<name>.crt, .key        a student
//	issued.jsonl                    the register of what was issued and revoked
//	revoked.crl                     the list of what was revoked, signed
//
// The identity of a peer stands in a URI of its certificate, conclave://<role>/<name>;
// [PeerIdentity] reads it from an established connection.
//
// # What it does not promise
//
// Revocation takes effect on servers that have loaded the new list. Keys are stored without
// a passphrase and protected by file permissions (0600) alone. Certificates of another
// authority work as well as these, if they carry the URI and the right key usages.
package certs
