package proof

import (
	"crypto/x509"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/report/text"
)

// readmeFile tells who gets a bundle what is in it.
const readmeFile = "README.txt"

// Pack is the bundle of a run's folder: what it gave out, the report for others, and the proof. Nothing else of the
// folder is in it: no state, no report that compares with real rows. It refuses a folder that does not verify.
func Pack(folder fs.FS) (Bundle, Findings, error) {
	found := Verify(folder, nil)
	if err := found.Err(); err != nil {
		return nil, found, fmt.Errorf("the folder does not verify, and is not packed: %w", err)
	}
	m, _, err := ReadManifest(folder, *found.Certificate)
	if err != nil {
		return nil, found, err
	}
	raw, err := readFile(folder, SignaturesFile, maxSignatures)
	if err != nil {
		return nil, found, err
	}
	signatures, err := ParseSignatures(raw)
	if err != nil {
		return nil, found, err
	}
	b := Bundle{readmeFile: readme(m, signatures, found)}
	for _, name := range namesOf(m, signatures) {
		if b[name], err = readFile(folder, name, maxBundle); err != nil {
			return nil, found, fmt.Errorf("pack the run: %w", err)
		}
	}
	return b, found, nil
}

// namesOf are the files of a bundle besides its README.
func namesOf(m Manifest, s Signatures) []string {
	names := []string{ManifestFile, SignaturesFile, certFile, ledgerFile}
	for _, f := range slices.Concat(m.Files, s.Reports) {
		names = append(names, f.Name)
	}
	return names
}

// VerifyBundle is Verify for a bundle, which may hold nothing but what [Pack] puts there.
func VerifyBundle(b Bundle, authorities *x509.CertPool) Findings {
	found := Verify(b, authorities)
	if found.Certificate == nil || found.Err() != nil {
		return found
	}
	m, _, err := ReadManifest(b, *found.Certificate)
	if err != nil {
		found.fail(ManifestFile, err)
		return found
	}
	signatures, err := ParseSignatures(b[SignaturesFile])
	if err != nil {
		found.fail(SignaturesFile, err)
		return found
	}
	if string(b[readmeFile]) != string(readme(m, signatures, found)) {
		found.fail(readmeFile, fmt.Errorf("it is not the text that conclave bundle writes; do not believe it"))
	}
	known := append(namesOf(m, signatures), readmeFile)
	for _, name := range b.names() {
		if !slices.Contains(known, name) {
			found.fail(name, fmt.Errorf("nothing lists it, and nobody stands for it; take it out"))
		}
	}
	return found
}

// readme is the text for who gets a bundle. It follows from the rest.
func readme(m Manifest, s Signatures, found Findings) []byte {
	c := found.Certificate
	var b strings.Builder
	fmt.Fprintf(&b, `Synthetic data of run %s
%s
%d rows, made by pipeline %s with (%s, %s)-differential privacy.
No record of the sites is in here. What that protects, and what not, the report says: shared/report.html

`, m.Run, strings.Repeat("=", len("Synthetic data of run ")+len(m.Run)), m.Rows, c.Pipeline, text.Figure(c.Epsilon),
		text.Figure(c.Delta))
	for _, name := range namesOf(m, s) {
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

// about says in a few words what a file of a bundle is.
func about(name string) string {
	words := map[string]string{
		ManifestFile: "the SHA-256 of each file that was given out", SignaturesFile: "who stands for it",
		certFile: "the guarantee", ledgerFile: "what was asked, and what it cost", rowsFile: "the synthetic rows",
		schemaFile: "columns, categories and bounds, which are public",
	}
	if words[name] != "" {
		return words[name]
	}
	switch {
	case strings.HasPrefix(name, "model/"):
		return "the model that the rows come from"
	case strings.HasPrefix(name, "shared/"):
		return "the report"
	}
	return "synthetic images"
}
