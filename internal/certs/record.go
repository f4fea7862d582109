package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
)

// PeerRecord names the other side of a connection for records of who did what: whom its
// certificate names, as role/name, and the certificate's SHA-256 in hex. Both are empty
// where it presented none, the name also where the certificate has none. It checks
// nothing, which the handshake did; to authorize take [PeerIdentity].
func PeerRecord(state tls.ConnectionState) (name, certificate string) {
	if len(state.PeerCertificates) == 0 {
		return "", ""
	}
	peer := state.PeerCertificates[0]
	sum := sha256.Sum256(peer.Raw)
	if id, err := identityOf(peer); err == nil {
		name = string(id.Role) + "/" + id.Name
	}
	return name, hex.EncodeToString(sum[:])
}
