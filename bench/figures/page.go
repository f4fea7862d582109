package figures

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
)

// layout is the page without its figures. It also defines, by name, the parts that are in other pages.
//
//go:embed results.md.tmpl
var layout string

// parts are the pages that have a part of the layout, between the comments "results: NAME" and "results: end".
var parts = map[string]string{
	"docs/pipelines.md": "pipelines", "README.md": "readme", "bench/gaussians/README.md": "gaussians",
	"bench/tables/marginals.md": "marginals", "docs/marginals.md": "measured",
	"docs/relabel.md": "relabel", "docs/faults.md": "faults", "docs/marginals-wide.md": "wide",
}

// tried are the ideas for images: their name in the log, and on the page.
var tried = [][2]string{
	{"before", "the sum without `patches`"}, {"means", "with the mean image of each class at 14 x 14"},
	{"sizes", "with waves of the image at 14 x 14 and 7 x 7"}, {"patches-4", "with 64 waves of patches in 4 x 4 cells"},
	{"patches-7", "with 64 in 7 x 7 cells"}, {"patches", "with 32 in 7 x 7 cells (`patches: 1`)"},
	{"refined", "without patches, by a generator that ends in a residual block of convolutions, 2.4 times as slow"},
	{"both", "by such a generator, with 32 waves of patches in 7 x 7 cells"},
	{"small", "the same, with half the batch"}, {"light", "with 32 waves, of half the weight"},
	{"votes", "0.3 of the sum's budget for votes on 2,000 generated images"},
}

// sources are what rows of tables come from: their name on the page, and their case in the log.
var sources = [][2]string{
	{"`marginals`", "marginals"}, {"`embed`", "embed"}, {"`pategan`", "pategan"}, {"AIM", "aim"}, {"MST", "mst"},
	{"naive Bayes", "naive Bayes"}, {"independent columns", "independent columns"},
}

// measuredTables are the data sets of the bench of marginals.
var measuredTables = []string{
	"flchain", "adult", "credit", "diabetes130", "census1940", "titanic", "cervical_cancer", "boston_housing",
	"epileptic_seizure", "isolet", "brfss2015", "support2",
}

// methods are the ways to weight rows: their name on the page, their case in the log, and their name in the paper.
var methods = [][3]string{
	{"no weights", "none", "None"},
	{"`discriminator`", "discriminator", "Discriminator"},
	{"`logreg-noised`, Laplace", "logreg-noised laplace", "BetaNoised"},
	{"`logreg-debiased`, Gaussian", "logreg-debiased gaussian", "BetaDebiased"},
	{"`dp-mlp`", "dp-mlp", "DP-MLP"},
}

// page is what is written: its figures come from the logs.
type page struct {
	logs  map[string][]*Line
	root  string
	files map[string]string
}

// WritePages writes docs/results.md, its pictures, and the tables of results in other pages of the repository at
// root. Figures come from the logs in bench/figures/logs and from papers.yaml, none is typed by hand.
func WritePages(root string) error {
	files, err := pages(root)
	if err != nil {
		return err
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("%w; run the command in the root of the repository", err)
		}
	}
	return nil
}

// pages are the generated files of the repository at root, by path.
func pages(root string) (map[string]string, error) {
	logs, err := readLogs(filepath.Join(root, "bench", "figures", "logs"))
	if err != nil {
		return nil, err
	}
	return (&page{logs: logs, root: root, files: map[string]string{}}).write()
}

func (p *page) write() (map[string]string, error) {
	t, err := template.New("results").Funcs(template.FuncMap{
		"ours": func(log, group, name, figure string) value {
			return measured(p.logs, log, group, name, figure, false)
		},
		"null": func(log, group, name, figure string) value {
			return measured(p.logs, log, group, name, figure, true)
		},
		"real": func(log, group, figure string) value {
			return measured(p.logs, log, group, RealRows, figure, false)
		},
		"once": func(log, group, figure string) value {
			return once(p.logs, log, group, "run", figure, false)
		},
		"one": func(log, group, name, figure string) value {
			return once(p.logs, log, group, name, figure, false)
		},
		"nullOnce": func(log, group, figure string) value {
			return once(p.logs, log, group, "run", figure, true)
		},
		"machine":   func(log, group string) string { return machine(p.logs[log], group) },
		"seconds":   func(log, group, name string) string { return seconds(p.logs[log], group, name) },
		"processor": func(log, group, name string) string { return processor(p.logs[log], group, name) },
		"failures":  func(log string) []string { return failures(p.logs[log]) },
		"sources":   func() [][2]string { return sources },
		"tried":     func() [][2]string { return tried },
		"tables":    func() []string { return measuredTables },
		"seeds": func(log, group, name, figure string) int {
			return measured(p.logs, log, group, name, figure, false).seeds
		},
		"paper": quoted, "cite": cite, "list": func(all ...string) []string { return all },
		"unknown": func() value { return value{} }, "methods": func() [][3]string { return methods },
		"split": func(line string) []string { return strings.SplitN(line, "-", 2) },
		"float": func(text string) (float64, error) { return strconv.ParseFloat(text, 64) },
		"bar":   func(label string, ours, null, paper value) bar { return bar{label, ours, null, paper} },
		"chart": func(name, title string, low, high float64, bars ...bar) string {
			file := "pictures/results-" + name + ".svg"
			p.files[filepath.Join(p.root, "docs", filepath.FromSlash(file))] = chart(title, low, high, bars)
			return fmt.Sprintf("![%s](%s)", title, file)
		},
	}).Parse(layout)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	if err := t.Execute(&b, nil); err != nil {
		return nil, err
	}
	p.files[filepath.Join(p.root, "docs", "results.md")] = b.String()
	for file, name := range parts {
		path := filepath.Join(p.root, filepath.FromSlash(file))
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		b.Reset()
		if err := t.ExecuteTemplate(&b, name, nil); err != nil {
			return nil, err
		}
		begin, end := "<!-- results: "+name+" -->\n", "<!-- results: end -->"
		before, rest, found := strings.Cut(string(raw), begin)
		_, after, ends := strings.Cut(rest, end)
		if !found || !ends {
			return nil, fmt.Errorf("%s has no comments %q and %q", path, begin, end)
		}
		p.files[path] = before + begin + b.String() + end + after
	}
	return p.files, nil
}
