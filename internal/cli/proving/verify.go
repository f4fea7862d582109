// Package proving has the commands that pack and verify the results of a run.
package proving

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/report/text"
)

// Commands returns the commands of this package.
func Commands() []*cobra.Command { return []*cobra.Command{verifyCommand(), bundleCommand()} }

// exitUnsigned is the exit code if all checks pass but no authority was named.
const exitUnsigned = 3

func verifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify DIR|BUNDLE.zip [--authority ca.crt] [--rows FILE] [--format text|json]",
		Short: "verify the results of a run: rows, model, certificate, ledger and signatures",
		Long: `Verifies the output folder of a run, or its bundle: rows, model, schema, certificate, ledger, signatures
and budget. Each check prints a line with what is proven and by whose signature, or what is only claimed.

Exit codes: 0 all checks pass; 1 a check fails or a signature is missing; 2 wrong usage; 3 all checks pass but
--authority is missing, so the author of the files may have forged the signatures. A local run has an
authority of its own: state/certs/ca.crt in its output folder.`,
		Args: cli.OneArgument("the path of the output folder of a run, or of a bundle"),
	}
	authority := c.Flags().String("authority", "",
		"the authority's certificate, a PEM `file` that you got from the sites, not with the data")
	rows := c.Flags().String("rows", "", "also verify this `file` of rows that were drawn later from the run's model")
	format := cli.Format(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		roots, err := rootsOf(*authority)
		if err != nil {
			return err
		}
		found, err := verify(args[0], roots)
		if err != nil {
			return err
		}
		if *rows != "" {
			found.CheckSample(*rows)
		}
		return show(found, *format)
	}
	return c
}

// rootsOf reads authorities; nil if none are named.
func rootsOf(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	roots, err := proof.Authorities(path)
	if err != nil {
		return nil, fmt.Errorf("--authority: %w", err)
	}
	return roots, nil
}

// verify checks a folder or a bundle.
func verify(path string, roots *x509.CertPool) (found proof.Findings, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return found, fmt.Errorf("%s does not exist; give the output folder of a run, or a bundle", path)
	}
	if err != nil {
		return found, fmt.Errorf("%w; give the output folder of a run, or a bundle", err)
	}
	if info.IsDir() {
		folder, err := proof.OpenFolder(path)
		if err != nil {
			return found, err
		}
		defer folder.Close()
		return proof.Verify(folder, roots), nil
	}
	if !info.Mode().IsRegular() {
		return found, fmt.Errorf("%s is neither a folder nor a file; give the output folder of a run, or a "+
			"bundle", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return found, err
	}
	defer f.Close()
	var kind [2]byte
	if _, err := f.ReadAt(kind[:], 0); err != nil || string(kind[:]) != "PK" { // as every zip file begins
		return found, fmt.Errorf("%s is not a zip file; give the output folder of a run, or a bundle", path)
	}
	b, err := proof.ReadBundle(f, info.Size())
	if errors.Is(err, proof.ErrBundle) {
		found.Checks = []proof.Check{{What: path, State: proof.Failed, Says: err.Error()}}
		return found, nil
	}
	if err != nil {
		return found, err
	}
	return proof.VerifyBundle(b, roots), nil
}

// verdicts are the texts for the worst result of the checks.
var verdicts = map[proof.State]string{
	proof.Proven: "all checks passed",
	proof.Unsigned: "all checks passed, but without --authority the signatures prove nothing: the author of the " +
		"files may have forged them",
	proof.Missing: "NOT PROVEN: a signature is missing",
	proof.Failed:  "NOT GENUINE: a check failed",
}

// verdict is the last line. An authority that nobody signed under is the likely cause of all other failures, so the
// line names it. Files that are not there are no sign of forgery by themselves.
func verdict(found proof.Findings, worst proof.State) string {
	if worst == proof.Failed && found.OnlyForeign() {
		return "NOT PROVEN: the signers are not certified by --authority; ask the run's sites for their authority's " +
			"certificate; if you gave that same certificate, do not trust the files"
	}
	if worst == proof.Failed && found.OnlyAbsent() {
		return "NOT PROVEN: a file is missing; get the whole output folder of the run, or its bundle"
	}
	return verdicts[worst]
}

func show(found proof.Findings, format string) error {
	worst := found.Worst()
	if format == "json" {
		if err := cli.PrintJSON(struct {
			proof.Findings
			Verdict proof.State `json:"verdict"`
		}{found, worst}); err != nil {
			return err
		}
	} else {
		w := cli.Columns()
		for _, c := range found.Checks {
			by := ""
			if c.By != "" {
				by = " (" + c.By + ")"
			}
			fmt.Fprintf(w, "%s\t%s\t%s%s\n", c.State, text.Visible(c.What), text.Visible(c.Says), text.Visible(by))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Println(verdict(found, worst))
	}
	switch worst {
	case proof.Failed, proof.Missing:
		return &cli.ExitError{Code: 1}
	case proof.Unsigned:
		return &cli.ExitError{Code: exitUnsigned}
	}
	return nil
}
