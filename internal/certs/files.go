package certs

import "path/filepath"

// Files are the PEM files of one process: the authority's certificate (or several in one file, while an authority is
// replaced), its own certificate and its own key. Revoked may name the authority's revocation list, or several lists
// in one file. If it is set and the list is missing, no peer is accepted.
type Files struct {
	CA      string `yaml:"ca" json:"ca"`
	Cert    string `yaml:"cert" json:"cert"`
	Key     string `yaml:"key" json:"key"`
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
