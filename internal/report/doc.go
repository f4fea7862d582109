// Package report writes what travels with a synthetic table: the release
// certificate, and a page that explains it to people.
//
// The certificate (NewCertificate, ReadCertificate, Certificate.WriteFile) is
// a small JSON file that states what was guaranteed. VerifyAgainstLedger
// recomputes it from the ledger; nothing in it has to be believed.
//
// The page (WriteHTML) is one self-contained HTML file without scripts and
// without anything from the network: what was guaranteed in words and figures,
// the budget over the rounds, how far the teachers agreed as far as that was
// released, how good the rows are, and pictures of columns, correlations and
// images. WriteMarkdown and WriteJSON write the same facts in short, and for
// programs. Each part is computed first (newBudgetChart, findings, newHeatMaps and
// so on), and drawn by the templates.
//
// The certificate never holds a figure computed from real rows without noise.
// The page may, when a real test table was given; it then says NOT PRIVATE at
// its head and at each such figure, and has to stay where the real rows are.
// This package does not decide what may be shown: it shows what it is given.
package report
