package proof

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/report/text"
)

// readmeFile explains the content of a bundle to its recipient.
const readmeFile = "README.txt"

// Pack returns the bundle of a run's folder: its released files, the report for others, and the proof. It contains
// nothing else of the folder: no state, no report that compares with real rows. It refuses a folder that does not
// verify.
func Pack(folder fs.FS) (Bundle, Findings, error) {
	found := Verify(folder, nil)
	if err := found.Err(); err != nil {
		return nil, found, fmt.Errorf("the folder was not packed, because its verification failed: %w", err)
	}
	b := Bundle{readmeFile: readme(found)}
	for _, name := range found.names() {
		content, err := readFile(folder, name, MaxBundle)
		if err != nil {
			return nil, found, fmt.Errorf("pack the run: %w", err)
		}
		b[name] = content
	}
	return b, found, nil
}

// names are the files of a bundle except its README.
func (f Findings) names() []string {
	names := []string{ManifestFile, SignaturesFile, certFile, ledgerFile}
	for _, file := range slices.Concat(f.manifest.Files, f.signatures.Reports) {
		names = append(names, file.Name)
	}
	return names
}

// VerifyBundle is Verify for a bundle, which may only contain what [Pack] puts there.
func VerifyBundle(b Bundle, authorities *x509.CertPool) Findings {
	found := Verify(b, authorities)
	if found.Err() != nil {
		return found
	}
	if string(b[readmeFile]) != string(readme(found)) {
		found.fail(readmeFile, errors.New("it is not the text that conclave bundle writes; do not trust it"))
	}
	known := append(found.names(), readmeFile)
	for _, name := range b.names() {
		if !slices.Contains(known, name) {
			found.fail(name, errors.New("no signed list includes it; remove it"))
		}
	}
	return found
}

// readme is the text for the recipient of a bundle. It follows from the rest.
func readme(found Findings) []byte {
	m, c := found.manifest, found.Certificate
	var b strings.Builder
	fmt.Fprintf(&b, `Synthetic data of run %s
%s
%d rows, made by pipeline %s with (%s, %s)-differential privacy.
The bundle contains no record of the sites. The report says what is protected and what is not: shared/report.html

`, m.Run, strings.Repeat("=", len("Synthetic data of run ")+len(m.Run)), m.Rows, c.Pipeline, text.Figure(c.Epsilon),
		text.Figure(c.Delta))
	for _, name := range found.names() {
		fmt.Fprintf(&b, "  %-32s %s\n", name, about(name))
	}
	fmt.Fprintf(&b, `
Verify it before you use it. PATH is the zip file or, if it is unpacked, the folder with this file:

  conclave verify PATH --authority ca.crt

ca.crt is the certificate of the authority. Get it from the sites, not with these files. For a run on one machine, get
it from the author.

To draw more rows, run in the folder

  conclave sample --model model --rows N --out more.csv
`)
	return []byte(b.String())
}

// about describes a file of a bundle in a few words.
func about(name string) string {
	words := map[string]string{
		ManifestFile: "the SHA-256 of each released file", SignaturesFile: "the signatures of student, " +
			"aggregator and sites",
		certFile: "the guarantee", ledgerFile: "all answers and their cost",
		schemaFile: "columns, categories and bounds (public)",
	}
	if words[name] != "" {
		return words[name]
	}
	switch {
	case slices.Contains(rowsFiles, name):
		return "the synthetic rows"
	case strings.HasPrefix(name, modelPrefix):
		return "the model that generated the rows"
	case strings.HasPrefix(name, "shared/"):
		return "the report"
	}
	return "synthetic images"
}

// OwnAuthority returns the file with the certificate of the authority that a run on one machine keeps in its output
// folder. It is empty for other runs.
func OwnAuthority(folder string) string {
	path := filepath.Join(folder, "state", "certs", "ca.crt")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}
