package certs

import "path/filepath"

// Files are the PEM files of one process. To make and replace them, see docs/certificates.md.
type Files struct {
	// CA is the path of the authority's certificate. While an authority is replaced, the file holds both certificates.
	// Required.
	CA string `yaml:"ca" json:"ca"`
	// Cert is the path of the process's own certificate. Required.
	Cert string `yaml:"cert" json:"cert"`
	// Key is the path of the certificate's key. Required.
	Key string `yaml:"key" json:"key"`
	// Revoked is the path of the authority's list of revoked certificates, or of several lists in one file. A peer on
	// the list is disconnected and not let in again. While the file is missing or out of date, no new peer is accepted
	// (docs/revocation.md#the-list-fails-closed). Without it a certificate is good until it expires. Default: none.
	Revoked string `yaml:"revoked" json:"revoked,omitempty"`
}

// IssuedFiles are the files that authority.Issue writes for an identity, and the authority's.
func IssuedFiles(dir string, role Role, name string) Files {
	base := filepath.Join(dir, string(role)+"-"+name)
	ca, _ := AuthorityFiles(dir)
	return Files{CA: ca, Cert: base + ".crt", Key: base + ".key"}
}

// RevokedFile is the path of the revocation list of the authority in dir.
func RevokedFile(dir string) string { return filepath.Join(dir, "revoked.crl") }

// AuthorityFiles are the files of the authority in dir.
func AuthorityFiles(dir string) (cert, key string) {
	return filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
}

// SiteFiles are the files of one identity at its site. Only Request leaves the site, and Cert comes back.
type SiteFiles struct {
	Files
	NextKey string // for a renewal, until its certificate is installed
	Request string
}

// FilesAtSite names the files of an identity in a site's folder.
func FilesAtSite(dir string, role Role, name string) SiteFiles {
	base := filepath.Join(dir, string(role)+"-"+name)
	return SiteFiles{Files: IssuedFiles(dir, role, name), NextKey: base + "-next.key", Request: base + ".csr"}
}
