// Package report writes the page that explains a synthetic table to people.
//
// The page (WriteHTML) is one self-contained HTML file without scripts and without network access: the guarantee in
// words and figures, the budget over the rounds, how far the teachers agreed as far as that was released, how good
// the rows are, and pictures of columns, correlations and images. WriteMarkdown and WriteJSON write the same facts in
// short form, and for programs. Each part is computed first (newBudgetChart, findings, newHeatMaps and so on), and
// drawn by the templates.
//
// If a real test table was given, the page has figures computed from real rows without noise. It then says NOT
// PRIVATE at its head and at each such figure, and must stay where the real rows are. This package does not decide
// what may be shown: it shows what it is given.
package report
