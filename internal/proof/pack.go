package proof

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
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
		return nil, found, fmt.Errorf("the folder does not verify, and is not packed: %w", err)
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
		found.fail(readmeFile, errors.New("it is not the text that conclave bundle writes; do not believe it"))
	}
	known := append(found.names(), readmeFile)
	for _, name := range b.names() {
		if !slices.Contains(known, name) {
			found.fail(name, errors.New("no signed list names it; remove it"))
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
No record of the sites is in here. What that protects, and what not, the report says: shared/report.html

`, m.Run, strings.Repeat("=", len("Synthetic data of run ")+len(m.Run)), m.Rows, c.Pipeline, text.Figure(c.Epsilon),
		text.Figure(c.Delta))
	for _, name := range found.names() {
		fmt.Fprintf(&b, "  %-32s %s\n", name, about(name))
	}
	fmt.Fprintf(&b, `
Check it before you use it, with the certificate of the authority, which you get from the sites and not from here:

  conclave verify BUNDLE.zip --authority ca.crt

More rows: unpack it, and

  conclave sample --model model --rows N --out more.csv
`)
	return []byte(b.String())
}

// about describes a file of a bundle in a few words.
func about(name string) string {
	words := map[string]string{
		ManifestFile: "the SHA-256 of each file that was given out", SignaturesFile: "who stands for it",
		certFile: "the guarantee", ledgerFile: "what was asked, and what it cost",
		schemaFile: "columns, categories and bounds, which are public",
	}
	if words[name] != "" {
		return words[name]
	}
	switch {
	case slices.Contains(rowsFiles, name):
		return "the synthetic rows"
	case strings.HasPrefix(name, modelPrefix):
		return "the model that the rows come from"
	case strings.HasPrefix(name, "shared/"):
		return "the report"
	}
	return "synthetic images"
}
