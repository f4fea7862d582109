package accounting

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/privacy/meaning"
	"github.com/conclave-dp/conclave/internal/report/text"
)

func ledgerCommand() *cobra.Command {
	c := &cobra.Command{Use: "ledger COMMAND", Short: "verify a ledger and its certificate; back up and restore"}
	c.AddCommand(verifyCommand(), backupCommand(), restoreCommand())
	return c
}

func verifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify --ledger FILE [--certificate FILE] [--format json]",
		Short: "verify a ledger, and that a certificate agrees with it",
	}
	path := c.Flags().String("ledger", "", "the ledger.jsonl `file` to verify")
	certificate := c.Flags().String("certificate", "", "the certificate.json `file` to verify against the ledger")
	format := cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *path == "" {
			return cli.Misuse("--ledger: name a ledger.jsonl")
		}
		return verify(*path, *certificate, *format)
	}
	return c
}

func verify(path, certificatePath, format string) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist; give the ledger.jsonl of a run", path)
	}
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	v, err := ledger.VerifyStrict(bytes.NewReader(raw))
	// A certificate says where the ledger of its run ends, so that missing entries are noticed. Without one, an open
	// run may mean that the end of the ledger was removed.
	open := errors.Is(err, ledger.ErrUnclosed)
	if err != nil && !(open && certificatePath != "") {
		return fmt.Errorf("%s: %w", path, err)
	}
	var stated, earlier []string
	var unknown error // this program does not know the certificate's pipeline
	if certificatePath != "" {
		c, err := certificate.Read(certificatePath)
		if err != nil {
			return err
		}
		if err := c.Verify(bytes.NewReader(raw)); err != nil {
			return fmt.Errorf("%s: %w", certificatePath, err)
		}
		stated, earlier, unknown = certificate.Stated, c.Earlier, c.KnownPipeline()
	}
	if format == "json" {
		return printVerification(v, stated, unknown)
	}
	fmt.Printf("%s is valid: %s, head %s\n", path, text.Several(v.Entries, "entry"), v.Head)
	fmt.Printf("dataset %s, unit %s%s: all runs spent epsilon %.6f (%s)\n",
		v.Dataset, v.Unit, meaning.At(v.Budget.Overlap), v.Price.Epsilon, v.Price.Accountant)
	used, filter, err := filtered(v)
	if err != nil {
		return err
	}
	fmt.Printf("budget (%g, %g): filter %s counts epsilon %.6f as used\n",
		v.Budget.Epsilon, v.Budget.Delta, filter, used)
	fmt.Println(certificate.SpentNote)
	for _, name := range slices.Sorted(maps.Keys(v.Runs)) {
		r := v.Runs[name]
		state := ""
		if r.Abandoned > 0 {
			state = fmt.Sprintf(", %d abandoned after nodes were asked", r.Abandoned)
		}
		if !r.Closed {
			state += ", still open"
		}
		fmt.Printf("run %s: epsilon %.6f of %g at delta %g (%s), %s, %d of %s answered%s\n",
			name, r.Price.Epsilon, r.Budget.Epsilon, r.Budget.Delta, r.Price.Accountant,
			text.Several(r.Releases, "release"), r.Answered, text.Several(r.Queries, "query"), state)
		printMasked(name, r.Masked)
	}
	if certificatePath != "" {
		fmt.Printf("%s agrees with it\n", certificatePath)
		if len(earlier) > 0 {
			fmt.Printf("it also covers run %s; its epsilon is the filter's figure, because these runs may depend on "+
				"each other's answers\n", strings.Join(earlier, ", "))
		}
		if unknown != nil {
			fmt.Printf("the ledger proves these figures, but this program cannot check what was released: "+
				"%v\n", unknown)
		}
		fmt.Printf("stated in the certificate, not proven by a ledger: %s\n", strings.Join(stated, ", "))
	}
	return nil
}

// printMasked prints the sites whose sums were masked and the resulting noise.
func printMasked(run string, g *masking.Group) {
	if g == nil {
		return
	}
	n := len(g.Members)
	fmt.Printf("run %s: masked sums of %d sites; up to %d of them may collude with the aggregator; a sum needs %d "+
		"sites. Each site drew 1/%d of the required variance: noise factor %.6g if all take part\n",
		run, n, g.Colluding, g.Quorum, g.Honest(), g.Surplus(n))
	for _, m := range g.Members {
		fmt.Printf("  %s  %s\n", m.Site, certs.SpellFingerprint(m.Key.Hex()))
	}
}

// filtered is the part of the dataset's budget that its filter counts as used.
func filtered(v ledger.Verification) (used float64, filter privacy.Filter, err error) {
	filter = cmp.Or(v.Budget.Filter, privacy.FilterGDP)
	used, err = filter.Epsilon(v.Events, v.Budget.Delta)
	return used, filter, err
}

func printVerification(v ledger.Verification, stated []string, unknown error) error {
	type maskedJSON struct {
		*masking.Group
		Sites       int     `json:"sites"`
		Share       float64 `json:"share"` // of each site, relative to the needed variance
		NoiseFactor float64 `json:"noise_factor"`
	}
	type runJSON struct {
		Epsilon      float64     `json:"epsilon"`
		Delta        float64     `json:"delta"`
		EpsilonSpent float64     `json:"epsilon_spent"`
		Accountant   string      `json:"accountant"`
		Closed       bool        `json:"closed"`
		Releases     int         `json:"releases"`
		Queries      int64       `json:"queries"`
		Answered     int64       `json:"answered"`
		Abandoned    int         `json:"abandoned"`
		Masked       *maskedJSON `json:"masked,omitempty"`
	}
	runs := map[string]runJSON{}
	for name, r := range v.Runs {
		var masked *maskedJSON
		if g := r.Masked; g != nil {
			masked = &maskedJSON{g, len(g.Members), g.Share(), g.Surplus(len(g.Members))}
		}
		runs[name] = runJSON{
			r.Budget.Epsilon, r.Budget.Delta, r.Price.Epsilon, r.Price.Accountant,
			r.Closed, r.Releases, r.Queries, r.Answered, r.Abandoned, masked,
		}
	}
	used, filter, err := filtered(v)
	if err != nil {
		return err
	}
	result := map[string]any{
		"filter": filter, "epsilon_used_by_filter": used,
		"entries": v.Entries, "head": v.Head, "dataset": v.Dataset, "unit": v.Unit, "neighbouring": v.Neighbouring,
		"budget": v.Budget, "epsilon_spent": v.Price.Epsilon, "runs": runs, "note": certificate.SpentNote,
	}
	if stated != nil {
		result["stated_not_proven"] = stated
	}
	if unknown != nil {
		result["unknown_pipeline"] = unknown.Error()
	}
	return cli.PrintJSON(result)
}
