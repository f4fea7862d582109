// Package pemfile reads and writes the PEM files of certificates, keys, requests and lists.
// Errors match those of package certs.
package pemfile

// Types of PEM blocks.
const (
	Certificate        = "CERTIFICATE"
	CertificateRequest = "CERTIFICATE REQUEST"
	PrivateKey         = "PRIVATE KEY"
	RevocationList     = "X509 CRL"
)
