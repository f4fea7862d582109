package certs

import "errors"

// Errors of this package and those below it, for errors.Is.
var (
	// ErrMissing: a file is not there or cannot be read.
	ErrMissing = errors.New("certificate file missing")
	// ErrMalformed: a file does not contain the expected PEM block.
	ErrMalformed = errors.New("certificate file malformed")
	// ErrExpired: a certificate has expired or is not valid yet.
	ErrExpired = errors.New("certificate expired or not yet valid")
	// ErrForeign: a certificate was not signed by the authority in use.
	ErrForeign = errors.New("certificate from another authority")
	// ErrKeyMismatch: a key does not belong to its certificate.
	ErrKeyMismatch = errors.New("key and certificate do not match")
	// ErrWrongRole: a certificate is valid, but not for this purpose.
	ErrWrongRole = errors.New("certificate of the wrong role")
	// ErrWrongHost: a server's certificate does not name the host dialled.
	ErrWrongHost = errors.New("certificate for another host")
	// ErrNoIdentity: a certificate names no role and name.
	ErrNoIdentity = errors.New("certificate without identity")
	// ErrRevoked: the authority revoked a certificate.
	ErrRevoked = errors.New("certificate revoked")
	// ErrList: the revocation list is unusable, so no new peer is accepted.
	ErrList = errors.New("list of revoked certificates cannot be used")
	// ErrExists: a file would be overwritten.
	ErrExists = errors.New("certificate file exists")
)
