// Package kit is a site's start kit: a zip file with the study, its schema, the authority's certificate, and a
// certificate of role joiner with its key, with which the site asks for admission. The site's own key is made at the
// site.
package kit

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/study"
)

// The files of a kit, sorted by name.
const (
	readmeName = "README.txt"
	caName     = "ca.crt"
	certName   = "joiner.crt"
	keyName    = "joiner.key"
	schemaName = "schema.yaml"
	studyName  = "study.yaml"
)

// maxFile bounds each file of a kit, and maxKit the zip file.
const (
	maxFile = 1 << 20
	maxKit  = 4 << 20
)

// ErrKit says that a file is not a kit.
var ErrKit = errors.New("not a start kit")

// Kit is what a site starts with.
type Kit struct {
	Site  string
	Study *study.Study
	// StudyText and Schema are the exact files; Authority, Cert and Key are PEM.
	StudyText, Schema    []byte
	Authority, Cert, Key []byte
	ca                   *x509.Certificate
}

// CA is the certificate of the study's authority.
func (k *Kit) CA() *x509.Certificate { return k.ca }

// SchemaSHA256 is the hash of the schema, in hex.
func (k *Kit) SchemaSHA256() string {
	sum := sha256.Sum256(k.Schema)
	return hex.EncodeToString(sum[:])
}

// packed is the date of all files: the first that a zip file can state, because the day of packing would change the
// bytes.
var packed = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Write packs a kit. The same kit always gives the same bytes.
func (k *Kit) Write(w io.Writer) error {
	z := zip.NewWriter(w)
	for _, f := range k.files() {
		to, err := z.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Store, Modified: packed})
		if err == nil {
			_, err = to.Write(f.content)
		}
		if err != nil {
			return fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	return z.Close()
}

type file struct {
	name    string
	content []byte
}

func (k *Kit) files() []file {
	return []file{{readmeName, []byte(k.readme())}, {caName, k.Authority}, {certName, k.Cert}, {keyName, k.Key},
		{schemaName, k.Schema}, {studyName, k.StudyText}}
}

func (k *Kit) readme() string {
	return fmt.Sprintf(`Start kit of %s

%s
1. Ask the operator by telephone for the SHA-256 of this zip file, and compare it (sha256sum).
2. conclave schema check --schema schema.yaml FILE
   It reports every cell of your records that does not fit the study's schema.yaml, which is in this kit.
   Correct the file, not the schema.
3. teacher join %s.zip --data FILE
   It makes the site's key on this machine, asks for admission, and prints the key's fingerprint. Read it out to the
   operator by telephone. Then the command waits until the operator has admitted the sites, and prints the roster's
   fingerprint. Answer yes only if the operator and all other sites see the same fingerprint.
   If the command is interrupted, run it again to continue.
4. teacher --config %s/teacher.yaml
   It runs the site's node. Leave it running.
5. teacher runs --config %s/teacher.yaml
   It lists the runs that wait for approval. With the name of a run it shows what the run asks for and what it costs.
6. teacher approve --config %s/teacher.yaml RUN
   To refuse a run, or to stop it, write deny in place of approve.

The key in this kit authorizes only the request. Keep the kit until all sites of the study have joined,
because a later roster needs it too (teacher join). Then delete it.
`, k.Site, k.Study.Words(), k.Site, k.Site, k.Site, k.Site)
}

// Read reads the kit in a zip file, and returns the file's SHA-256 in hex. Errors match [ErrKit].
func Read(path string) (*Kit, string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("%s does not exist; give the path of the start kit that the operator sent", path)
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the kit: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxKit+1))
	if err != nil {
		return nil, "", fmt.Errorf("read the kit: %w", err)
	}
	k, err := Parse(raw, time.Now())
	if errors.Is(err, certs.ErrExpired) {
		return nil, "", fmt.Errorf("%s: %w; the operator can make a new kit: delete this one from study/kits, and run "+
			"conclave study make again", path, err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w; ask the operator for the kit again", path, err)
	}
	sum := sha256.Sum256(raw)
	return k, hex.EncodeToString(sum[:]), nil
}

// Parse is [Read] for the bytes of a zip file, at a moment when its certificates must be valid.
func Parse(raw []byte, now time.Time) (*Kit, error) {
	k, err := parse(raw, now)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKit, err)
	}
	return k, nil
}

func parse(raw []byte, now time.Time) (*Kit, error) {
	if len(raw) > maxKit {
		return nil, fmt.Errorf("it has more than %d bytes", maxKit)
	}
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	names := []string{readmeName, caName, certName, keyName, schemaName, studyName}
	for _, f := range z.File {
		if !slices.Contains(names, f.Name) || found[f.Name] != nil || f.Method != zip.Store {
			return nil, fmt.Errorf("%.80q is not one of its files, is listed twice, or was packed by another program",
				f.Name)
		}
		if found[f.Name], err = content(f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if len(found) != len(names) {
		return nil, fmt.Errorf("it has only %d of %d files", len(found), len(names))
	}
	k := &Kit{StudyText: found[studyName], Schema: found[schemaName], Authority: found[caName], Cert: found[certName],
		Key: found[keyName]}
	if k.Study, err = study.Parse(k.StudyText); err != nil {
		return nil, fmt.Errorf("%s: %w", studyName, err)
	}
	return k, k.check(now)
}

// content is the content of a kit's file, which must not be empty.
func content(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	raw, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 || len(raw) > maxFile {
		return nil, fmt.Errorf("it has %d bytes or more; use 1 to %d", len(raw), maxFile)
	}
	return raw, nil
}

// check checks the certificates of a kit, and takes the site's name from them.
func (k *Kit) check(now time.Time) error {
	block, rest := pem.Decode(k.Authority)
	if block == nil || block.Type != pemfile.Certificate || len(rest) > 0 {
		return fmt.Errorf("%s: %w: want one certificate in PEM", caName, certs.ErrMalformed)
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !ca.IsCA {
		return fmt.Errorf("%s: %w: it is not that of an authority", caName, certs.ErrMalformed)
	}
	k.ca = ca
	pair, err := tls.X509KeyPair(k.Cert, k.Key)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", certName, certs.ErrMalformed, err)
	}
	id, err := certs.IdentityOf(pair.Leaf)
	if err != nil {
		return fmt.Errorf("%s: %w", certName, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	chain := []*x509.Certificate{pair.Leaf}
	if err := certs.VerifyChain(chain, roots, x509.ExtKeyUsageClientAuth, now); err != nil {
		return fmt.Errorf("%s: %w", certName, err)
	}
	if id.Role != certs.RoleJoiner || !slices.Contains(k.Study.Sites, id.Name) {
		return fmt.Errorf("%s: %w: it is for %s, not for a joining site of the study", certName,
			certs.ErrWrongRole, id)
	}
	k.Site = id.Name
	return nil
}

// Unpack writes a kit's files to a site's folder, which it creates if needed, and returns those of the connection.
// Existing files stay, and must be equal.
func (k *Kit) Unpack(dir string) (certs.Files, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return certs.Files{}, fmt.Errorf("create the site's folder: %w", err)
	}
	files := certs.IssuedFiles(dir, certs.RoleJoiner, k.Site)
	for _, f := range []struct {
		path    string
		content []byte
		mode    os.FileMode
	}{
		{filepath.Join(dir, studyName), k.StudyText, 0o644},
		{filepath.Join(dir, schemaName), k.Schema, 0o644},
		{files.CA, k.Authority, 0o644},
		{files.Cert, k.Cert, 0o644},
		{files.Key, k.Key, 0o600},
	} {
		err := Place(f.path, f.content, f.mode)
		switch {
		case errors.Is(err, ErrDiffers) && (f.path == files.Cert || f.path == files.Key):
			return certs.Files{}, fmt.Errorf("%s %w: it is from an earlier kit of the same study; if the operator "+
				"sent a new kit, delete the two files %s and %s, and run the command again", f.path, ErrDiffers,
				files.Cert, files.Key)
		case errors.Is(err, ErrDiffers):
			return certs.Files{}, fmt.Errorf("%s %w: the folder belongs to another study; give another one with --dir",
				f.path, ErrDiffers)
		case err != nil:
			return certs.Files{}, err
		}
	}
	return files, nil
}
