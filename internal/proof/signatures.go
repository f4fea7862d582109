package proof

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/conclave-dp/conclave/internal/certs/attest"
)

// Signatures are the signatures of a run's ledger and of its released files.
type Signatures struct {
	// Ledger are signatures of the ledger's last entry: by the aggregator, and by sites.
	Ledger []attest.Signature `json:"ledger"`
	// Reports are the reports for others. They are signed, but not in the manifest, since they can be made
	// again.
	Reports []File `json:"reports"`
	// Release is the student's signature of manifest, certificate and reports; nil if the maker of the rows had no
	// certificate.
	Release *attest.Signature `json:"release,omitempty"`
}

// maxSignatures bounds the bytes of a file: a signature has about 1.5 KiB with its certificates.
const maxSignatures = 32 << 20

// ErrSignatures matches, with errors.Is, the error that signatures are malformed.
var ErrSignatures = errors.New("not the signatures of a run")

// Canonical returns the only valid text of signatures.
func (s Signatures) Canonical() ([]byte, error) {
	raw, err := json.MarshalIndent(s, "", " ")
	return append(raw, '\n'), err
}

// ParseSignatures reads the text of signatures, and refuses any other text with the same meaning.
func ParseSignatures(raw []byte) (Signatures, error) {
	s, err := parse[Signatures](raw)
	if err != nil {
		return s, fmt.Errorf("%w: %s: %w; get the file again", ErrSignatures, SignaturesFile, err)
	}
	return s, nil
}

func (s Signatures) validate() error { return validFiles(s.Reports) }

// ReleaseOf is the statement that a student signs: the texts of manifest and certificate, and reports.
func ReleaseOf(run string, manifest, certificate []byte, reports []File) attest.Statement {
	var lines []string
	for _, f := range reports {
		lines = append(lines, f.SHA256+" "+f.Name)
	}
	return attest.Release(run, sumOf(manifest), sumOf(certificate), lines...)
}

// FileOf lists a file with this text.
func FileOf(name string, text []byte) File {
	return File{Name: name, Bytes: int64(len(text)), SHA256: sumOf(text)}
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
