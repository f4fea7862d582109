package training

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/internal/run/results"
)

// outputs describes each file of a run, in the order of interest.
var outputs = []struct{ name, what string }{
	{"synthetic", "the synthetic rows"},
	{"not_private", "rows for comparison, NOT PRIVATE: do not share"},
	{"images", "the synthetic images, as idx"},
	{"labels", "their labels"},
	{"samples", "sample images"},
	{"report", "the report, for a browser"},
	{"report_md", "a short report, as text"},
	{"report_json", "the report, for programs"},
	{"shared", "the report without comparisons with real rows, to share"},
	{"certificate", "the guarantee; share it with the rows"},
	{"ledger", "every answer and its cost"},
	{"manifest", "the SHA-256 of all released files"},
	{"signatures", "the signatures of student, aggregator and sites"},
	{"model", "the generator; it draws more rows at no cost"},
}

// show prints a result, for people with possible next steps.
func (r *resultFlags) show(result *results.Result) error {
	if *r.format == "json" {
		return cli.PrintJSON(result)
	}
	showGuarantee(result)
	for _, note := range result.Notes {
		fmt.Println(note)
	}
	for _, f := range result.Figures {
		fmt.Printf("%s: %s\n", f.Name, f)
	}
	if result.HeldOut > 0 {
		fmt.Printf("%g%% of the privacy units were held out of the training, for the comparison with "+
			"the synthetic rows; the report is NOT PRIVATE: keep it on this machine, and share the one "+
			"in the folder shared\n", 100*result.HeldOut)
	}
	showUtility(result.Utility)
	fmt.Println("files:")
	w := cli.Columns()
	for _, o := range outputs {
		if path := result.Outputs[o.name]; path != "" { // tables have no images
			what := o.what
			if o.name == "model" && len(result.Notes) > 0 {
				what += ", without the stages after training"
			}
			fmt.Fprintf(w, "  %s\t%s\n", path, what)
		}
	}
	if err := w.Flush(); err != nil || result.NotPrivate {
		return err
	}
	me, files := invocation(), result.Outputs
	if r.free {
		fmt.Println("the ledger does not list the files of a free stage, so conclave verify and bundle refuse them; " +
			"for rows that others can verify, name the stage in the run.yaml of a new run")
	}
	fmt.Println("next:")
	if folder := filepath.Dir(files["certificate"]); !r.free {
		authority := cmp.Or(proof.OwnAuthority(folder), proof.OwnAuthority(cmp.Or(r.from, folder)), "ca.crt")
		fmt.Printf("  %s verify %s --authority %s\n", me, text.ShellWord(folder), text.ShellWord(authority))
		fmt.Printf("  %s bundle --from %s --out bundle.zip\n", me, text.ShellWord(folder))
	}
	fmt.Printf("  %s sample --model %s --rows 1000 --out more.csv\n", me, text.ShellWord(files["model"]))
	return nil
}

// showGuarantee says what was made, under which guarantee and at which cost.
func showGuarantee(result *results.Result) {
	fmt.Printf("%s: %d synthetic rows\n", result.Name, result.Rows)
	if result.NotPrivate {
		fmt.Println("NOT PRIVATE: these rows have no guarantee and no certificate; use them only for comparison, and " +
			"keep them with the real rows")
		fmt.Printf("spent epsilon %.4f of %g in %s%s nevertheless\n", result.EpsilonSpent,
			result.Epsilon, text.Several(result.Rounds, "round"), with(result, " with"))
		return
	}
	fmt.Printf("guarantee: (%g, %g)-DP, %s; spent epsilon %.4f ",
		result.Epsilon, result.Delta, result.Guarantee, result.EpsilonSpent)
	if len(result.Earlier) > 0 {
		fmt.Printf("together with run %s; the stages took %s%s\n", strings.Join(result.Earlier, ", "),
			text.Several(result.Answered, "answer"), with(result, " of"))
	} else {
		fmt.Printf("on %s%s in %s\n", text.Several(result.Answered, "answer"), with(result, " by"),
			text.Several(result.Rounds, "round"))
	}
	fmt.Println(certificate.SpentNote)
}

// with is the number of teachers after a word. It is empty for a pipeline whose nodes train none.
func with(result *results.Result, word string) string {
	if p, _ := pipelines.Named(result.Pipeline); !p.Teachers {
		return ""
	}
	return word + " " + text.Several(result.Teachers, "teacher")
}

// showUtility prints the measurements on real rows, if there were any.
func showUtility(utility []results.UtilityResult) {
	if len(utility) == 0 {
		return
	}
	measure, rows := "AUROC", "rows"
	if utility[0].SyntheticAccuracy != nil {
		measure, rows = "accuracy", "images"
	}
	fmt.Printf("%s on real test %s (NOT PRIVATE, keep on this machine), of models trained on:\n", measure, rows)
	for _, u := range utility {
		synthetic, real := cmp.Or(u.SyntheticAUROC, u.SyntheticAccuracy), cmp.Or(u.RealAUROC, u.RealAccuracy)
		fmt.Printf("  %-29s synthetic %s %.3f", u.Classifier, rows, *synthetic)
		if real != nil {
			fmt.Printf(", real %s %.3f", rows, *real)
		}
		fmt.Println()
	}
}

// invocation is the command with which a person would start this program: `go run` puts its binary in a temporary
// folder.
func invocation() string {
	if path, err := os.Executable(); err == nil && strings.Contains(filepath.ToSlash(path), "/go-build") {
		return "go run ./cmd/conclave"
	}
	return "conclave"
}
