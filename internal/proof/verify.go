package proof

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/attest"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// State is the result of a check.
type State string

// The states of a check, from good to bad.
const (
	// Proven: it follows from a signature by a peer that the authority certified, or from arithmetic.
	Proven State = "proven"
	// Stated: somebody says so, and nothing here could disprove it.
	Stated State = "stated"
	// Unsigned: it is consistent, but no peer that the reader named signed it. Anybody can have made it.
	Unsigned State = "unsigned"
	// Missing: a signature that is required is absent.
	Missing State = "missing"
	// Failed: it does not hold.
	Failed State = "failed"
)

// Check is one check.
type Check struct {
	What  string `json:"what"` // a file, or a claim
	State State  `json:"state"`
	By    string `json:"by,omitempty"` // who stated or signed it
	Says  string `json:"says"`         // the conclusion, or what is wrong and what to do
}

// Findings are all checks of a folder, in their order.
type Findings struct {
	Run    string  `json:"run,omitempty"`
	Checks []Check `json:"checks"`
	// Certificate is nil if it could not be read.
	Certificate *certificate.Certificate `json:"-"`
	// Head is the hash of the run's closing entry in the ledger.
	Head string `json:"-"`

	// manifest and signatures are as read; manifestRaw is nil if there is no manifest.
	foreign     int // failed checks of signers that the reader's authority does not know
	absent      int // failed checks because a file is not there
	manifest    Manifest
	manifestRaw []byte
	signatures  Signatures
}

// Worst is the worst state of a check; Stated counts as Proven.
func (f Findings) Worst() State {
	order := []State{Proven, Unsigned, Missing, Failed}
	worst := 0
	for _, c := range f.Checks {
		worst = max(worst, slices.Index(order, c.State))
	}
	return order[worst]
}

// OnlyForeign reports whether checks failed, all of them because the reader's authority does not know the signer.
func (f Findings) OnlyForeign() bool {
	return f.foreign > 0 && f.failed() == f.foreign
}

func (f Findings) failed() int {
	failed := 0
	for _, c := range f.Checks {
		if c.State == Failed {
			failed++
		}
	}
	return failed
}

// OnlyAbsent reports whether checks failed, all of them because a file is not there. Nothing that is there was found
// to be altered.
func (f Findings) OnlyAbsent() bool { return f.absent > 0 && f.failed() == f.absent }

// Err is the first failed check, nil if none failed.
func (f Findings) Err() error {
	for _, c := range f.Checks {
		if c.State == Failed {
			return fmt.Errorf("%s: %s", c.What, c.Says)
		}
	}
	return nil
}

func (f *Findings) add(what string, state State, by, says string) {
	f.Checks = append(f.Checks, Check{What: what, State: state, By: by, Says: says})
}

func (f *Findings) fail(what string, err error) { f.add(what, Failed, "", err.Error()) }

// Verify checks a folder of a run: its files, its certificate, the ledger and the signatures. authorities are
// those that the reader trusts. Without any, nothing is proven, because the maker of the files can also have
// made the signatures.
func Verify(folder fs.FS, authorities *x509.CertPool) Findings {
	v := &verification{folder: folder, authorities: authorities}
	if v.readCertificate() && v.readLedger() {
		v.readSignatures()
		v.checkLedgerSignatures()
		v.checkManifest()
		v.checkRows()
		v.checkRelease()
		v.stated()
	}
	return v.Findings
}

// CheckFiles checks the files of a folder against its manifest, and the manifest against a verified
// certificate. It returns the manifest.
func CheckFiles(folder fs.FS, c certificate.Certificate) (Manifest, error) {
	m, _, err := ReadManifest(folder, c)
	if err != nil {
		return m, err
	}
	return m, m.Check(folder)
}

// verification is a folder's verification in progress.
type verification struct {
	Findings
	folder      fs.FS
	authorities *x509.CertPool

	certificate    certificate.Certificate
	certificateRaw []byte
	ledger         ledger.Verification
	run            ledger.RunTotal
	sealed         bool // the manifest is the one that the run was closed with
	whole          bool // all files are as the manifest says
}

// read reads a file of the folder, up to a size.
func (v *verification) read(name string, most int64) ([]byte, bool) {
	raw, err := readFile(v.folder, name, most)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is missing: get the whole output folder of the run, or its bundle", name)
		v.absent++
	}
	if err != nil {
		v.fail(name, err)
	}
	return raw, err == nil
}

func readFile(folder fs.FS, name string, most int64) ([]byte, error) {
	f, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%s is larger than the maximum of %d bytes", name, most)
	}
	return raw, err
}

func (v *verification) readCertificate() bool {
	raw, ok := v.read(certFile, 1<<20)
	if !ok {
		return false
	}
	c, err := certificate.Parse(raw)
	if err != nil {
		v.fail(certFile, err)
		return false
	}
	v.certificate, v.certificateRaw, v.Run, v.Certificate = c, raw, c.Run, &c
	return true
}

// maxLedger bounds a ledger, in bytes: a million releases take about 500 MiB.
const maxLedger = 2 << 30

func (v *verification) readLedger() bool {
	raw, ok := v.read(ledgerFile, maxLedger)
	if !ok {
		return false
	}
	verified, err := ledger.VerifyStrict(bytes.NewReader(raw))
	if err != nil && !errors.Is(err, ledger.ErrUnclosed) { // another run of the dataset may be open
		v.fail(ledgerFile, err)
		return false
	}
	v.ledger, v.run = verified, verified.Runs[v.certificate.Run]
	v.Head = v.run.Head
	v.add(ledgerFile, Proven, "arithmetic", fmt.Sprintf("%d entries are chained, with correct prices, within the "+
		"budgets",
		verified.Entries))
	if err := v.certificate.Against(verified, raw); err != nil {
		v.fail(certFile, err)
		return false
	}
	guarantee, protects := v.claims()
	v.add(certFile, Proven, "the ledger", guarantee)
	v.add(certFile, Proven, "the ledger", protects)
	return true
}

// claims are the guarantee, and what it protects, with what the aggregator sees before noise is added.
func (v *verification) claims() (guarantee, protects string) {
	c := v.certificate
	by := ""
	if p, _ := pipelines.Named(c.Pipeline); p.Teachers {
		by = " with " + text.Several(c.Teachers, "teacher")
	}
	aggregator := "not masked: the aggregator saw the answers of single sites"
	if c.Masked != nil {
		aggregator = "masked: the aggregator saw only noisy totals"
	}
	return fmt.Sprintf("(%v, %v)-DP of run %q, by pipeline %s%s", c.Epsilon, c.Delta, c.Run, c.Pipeline, by),
		fmt.Sprintf("protects one %s%s; %s", c.Unit, cmp.Or(meaning.At(c.Overlap), " at one site"), aggregator)
}

func (v *verification) readSignatures() {
	raw, ok := v.read(SignaturesFile, maxSignatures)
	if !ok {
		return
	}
	var err error
	if v.signatures, err = ParseSignatures(raw); err != nil {
		v.fail(SignaturesFile, err)
	}
}

// believe checks a signature of a statement by a peer in a role, and that its certificate was valid on a day.
// The caller checks the name. Without authorities it returns false and no error.
func (v *verification) believe(g attest.Signature, s attest.Statement, role certs.Role, day string) (by attest.Signer,
	believed bool, err error) {
	by, err = g.Check(s)
	if err == nil && by.Role != role {
		err = fmt.Errorf("it is by %v, and not by a certificate of role %s", by.Identity, role)
	}
	if err != nil || v.authorities == nil {
		return by, false, err
	}
	return by, true, by.Under(v.authorities, day)
}

// state is the state of a signed statement.
func (v *verification) state(believed bool) State {
	if believed {
		return Proven
	}
	return Unsigned
}

// witnesses returns the sites that must sign the ledger's end. These are the sites of the run's roster or, if
// the run asked nothing, of the runs that it continued. An aggregator alone must not be able to write a ledger
// that is believed.
func (v *verification) witnesses() (sites []string) {
	asked := v.run.Roster
	if len(asked) == 0 {
		for _, run := range v.ledger.Before(v.certificate.Run) {
			asked = append(asked, v.ledger.Runs[run].Roster...)
		}
	}
	for _, s := range asked {
		if !slices.Contains(sites, s.Site) {
			sites = append(sites, s.Site)
		}
	}
	return sites
}

// checkLedgerSignatures checks that the aggregator and every site of the roster signed the ledger's end.
func (v *verification) checkLedgerSignatures() {
	head := attest.Head(v.ledger.Dataset, uint64(v.ledger.Entries), v.ledger.Head)
	witnesses, missing := v.witnesses(), map[string]bool{}
	for _, site := range witnesses {
		missing[site] = true
	}
	aggregator := false
	for i, g := range v.signatures.Ledger {
		role := certs.RoleNode
		if by, err := g.Check(head); err == nil && by.Role == certs.RoleAggregator {
			role = certs.RoleAggregator
		}
		by, believed, err := v.believe(g, head, role, v.run.Ended)
		if err == nil && role == certs.RoleNode {
			err = v.isMember(by)
		}
		switch {
		case errors.Is(err, certs.ErrForeign): // it signed; the error says which authority to name
			aggregator = aggregator || role == certs.RoleAggregator
			delete(missing, by.Name)
			v.failForeign(fmt.Sprintf("signature %d of the ledger", i+1), by)
		case err != nil:
			v.fail(SignaturesFile, fmt.Errorf("signature %d of the ledger: %w", i+1, err))
		case role == certs.RoleAggregator:
			aggregator = true
			v.add("the ledger head", v.state(believed), by.Identity.String(), "is the head of its ledger")
		case missing[by.Name]:
			delete(missing, by.Name)
			v.add("the ledger head", v.state(believed), by.Identity.String(), "is the head of the ledger that it "+
				"received")
		default: // a site that joined later, or another node of a site
			v.add("the ledger head", v.state(believed), by.Identity.String(), "also signed, but was not in the roster")
		}
	}
	if !aggregator {
		v.add(SignaturesFile, Missing, "", "the aggregator did not sign the ledger head, so no signature covers the "+
			"ledger; get the files again")
	}
	for _, site := range witnesses {
		if missing[site] {
			v.add(SignaturesFile, Missing, "", fmt.Sprintf("site %q did not sign the ledger head: it may have "+
				"received another ledger, or was not connected at the end of the run; run the student again when it "+
				"is connected",
				site))
		}
	}
	switch {
	case len(v.run.Roster) == 0 && v.run.Releases+v.run.Abandoned > 0:
		v.add(ledgerFile, Failed, "", "the run has questions but no roster, so no site can vouch for the ledger; get "+
			"the files again")
	case len(witnesses) == 0:
		v.add(SignaturesFile, Missing, "", "no site was asked, so none vouches for the ledger, and the aggregator "+
			"could have written anything; use the files of a run that asked sites")
	}
}

// failForeign adds a signature whose signer the reader's authority does not know.
func (v *verification) failForeign(signature string, by attest.Signer) {
	v.foreign++
	v.fail(SignaturesFile, fmt.Errorf("%w than --authority: %s is by %v; check that --authority is that of the run's "+
		"sites", certs.ErrForeign, signature, by.Identity))
}

// isMember checks that a signature of a masked run's site is by the key that the run's spec names.
func (v *verification) isMember(by attest.Signer) error {
	if v.run.Masked == nil {
		return nil
	}
	for _, m := range v.run.Masked.Members {
		if m.Site == by.Name && m.Key.Hex() != by.Fingerprint {
			return fmt.Errorf("site %q signed with another key than that of the masked run's member", by.Name)
		}
	}
	return nil
}

func (v *verification) checkManifest() {
	m, raw, err := ReadManifest(v.folder, v.certificate)
	if err != nil {
		v.fail(ManifestFile, err)
		return
	}
	v.manifest, v.manifestRaw = m, raw
	v.sealed = v.run.Manifest == sumOf(raw)
	if v.sealed {
		v.add(ManifestFile, Proven, "the ledger", "the run was closed with this list of files")
	}
	if !v.sealed && v.run.Manifest != "" {
		v.fail(ManifestFile, errors.New("it is not the list that the run was closed with: free stages made other "+
			"rows later, or a file was replaced; use the files of the run itself"))
	}
	if !v.sealed && v.run.Manifest == "" {
		v.add(ManifestFile, Stated, "the student", "another peer closed the run, without a list of files: only the "+
			"signer of this list vouches for it")
	}
	v.whole = true
	for _, f := range m.Files {
		if err := f.Check(v.folder); err != nil {
			v.fail(f.Name, err)
			v.whole = false
		}
	}
	if v.whole {
		v.add(fmt.Sprintf("%d files", len(m.Files)), Proven, "the manifest", "match its list, byte by byte")
	}
}

// checkRows checks schema and number of rows against certificate and ledger. Rows that differ from the listed
// ones may have any size, and are not read.
func (v *verification) checkRows() {
	if !v.whole {
		return
	}
	raw, ok := v.read(schemaFile, 4<<20)
	if !ok {
		return
	}
	schema, err := partition.ParseSchema(raw)
	if err != nil {
		v.fail(schemaFile, err)
		return
	}
	if schema.SHA256 != v.certificate.SchemaSHA256 {
		v.fail(schemaFile, fmt.Errorf("its SHA-256 is %s, but the run was opened with %s", schema.SHA256,
			v.certificate.SchemaSHA256))
		return
	}
	v.add(schemaFile, Proven, "the ledger", "is the schema that the run was opened with")
	v.checkColumnsFromRows(schema)
	rowsFile := v.manifest.RowsFile()
	table, err := v.decodeRows(schema, rowsFile)
	switch {
	case err != nil:
		v.fail(rowsFile, err)
	case table.Len() != v.certificate.Rows:
		v.fail(rowsFile, fmt.Errorf("it has %d rows, but the certificate says %d", table.Len(), v.certificate.Rows))
	default:
		v.add(rowsFile, Proven, "arithmetic", fmt.Sprintf("%d rows obey the schema", table.Len()))
	}
}

// checkColumnsFromRows compares the certificate's columns outside the guarantee with those that the schema
// names.
func (v *verification) checkColumnsFromRows(schema *partition.Schema) {
	own, stated := schema.ColumnsFromRows(), v.certificate.ColumnsFromRows
	switch {
	case !slices.Equal(own, stated):
		v.fail(certFile, fmt.Errorf("columns_from_rows is %q, but the schema has source: rows at %q", stated, own))
	case len(own) > 0:
		v.add(schemaFile, Stated, "the schema", certificate.OutsideGuarantee(own))
	}
}

// decodeRows reads the listed rows.
func (v *verification) decodeRows(schema *partition.Schema, name string) (*partition.Table, error) {
	rows, err := v.folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	o := tabular.Options{Weights: true}
	if !strings.HasSuffix(name, tabular.Parquet) {
		return tabular.DecodeCSV(schema, rows, name, o)
	}
	at := slices.IndexFunc(v.manifest.Files, func(f File) bool { return f.Name == name })
	random, ok := rows.(io.ReaderAt)
	if !ok {
		return nil, errors.New("it is not seekable; copy the folder to a disk")
	}
	return tabular.DecodeParquet(schema, random, v.manifest.Files[at].Bytes, name, o)
}

// checkRelease checks the student's signature of manifest and certificate.
func (v *verification) checkRelease() {
	if v.manifestRaw == nil {
		return
	}
	whole := true
	for _, f := range v.signatures.Reports {
		if err := f.Check(v.folder); err != nil {
			v.fail(f.Name, fmt.Errorf("%w: restore the listed file", err))
			whole = false
		}
	}
	g := v.signatures.Release
	if g == nil {
		v.add(SignaturesFile, Missing, "", "manifest.json, certificate.json and the reports are not signed; ask "+
			"their author to sign them, or use the files of the run itself")
		return
	}
	released := ReleaseOf(v.certificate.Run, v.manifestRaw, v.certificateRaw, v.signatures.Reports)
	by, believed, err := v.believe(*g, released, certs.RoleStudent, v.run.Ended)
	if errors.Is(err, certs.ErrForeign) {
		v.failForeign("the signature of manifest and certificate", by)
		return
	}
	if err != nil {
		v.fail(SignaturesFile, fmt.Errorf("its signature does not match certificate.json, manifest.json and the "+
			"digests of the reports: one of these was altered or replaced: %w", err))
		return
	}
	if by.Name != v.run.GaveOut && by.Name != v.certificate.Student {
		v.fail(SignaturesFile, fmt.Errorf("manifest and certificate are signed by %v, but the run belongs to student "+
			"%q; use the files of the run itself", by.Identity, v.certificate.Student))
		return
	}
	says := "released these files with this certificate"
	if by.Name != v.certificate.Student {
		says += fmt.Sprintf("; student %q requested the run", v.certificate.Student)
	}
	v.add("manifest and certificate", v.state(believed), by.Identity.String(), says)
	if !whole {
		return
	}
	for _, f := range v.signatures.Reports {
		v.add(f.Name, v.state(believed), by.Identity.String(), "matches the signed digest")
	}
}

// stated lists what nothing here can prove.
func (v *verification) stated() {
	if v.manifestRaw == nil {
		return
	}
	c := v.certificate
	v.add("the rows come from the model", Stated, "the student", "and the model from the releases in the ledger: "+
		"no signature can prove this, and a dishonest student could release other rows")
	at := "one site"
	if c.Overlap > 1 {
		at = fmt.Sprintf("each of its sites, %d at most", c.Overlap)
	}
	v.add("the data of the sites", Stated, "the sites", "that records are real, and that "+unitWords(c.Unit)+
		" lies in one partition of "+at)
	draws := "the aggregator"
	if c.Masked != nil {
		draws = "the sites"
	}
	v.add("the noise", Stated, draws, "that it was drawn, as large as the ledger says")
	if _, packed := v.folder.(Bundle); !packed { // a bundle has no others
		v.add("other files", Stated, "nobody", "other files in the folder were not checked, such as a report.html "+
			"next to the rows")
	}
	fields := slices.DeleteFunc(slices.Clone(certificate.Stated), func(s string) bool {
		return s == "rows" || s == "manifest_sha256" || s == "columns_from_rows"
	})
	v.add(certFile, Stated, "the student", strings.Join(fields, ", "))
}

func unitWords(unit string) string {
	if unit == partition.UnitRecord {
		return "each record"
	}
	return "each value of column " + unit
}
