package training

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certificate"
	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/run/results"
)

func reportCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "report --from DIR [--out DIR] [--test FILE] [--train FILE] [--coin-flips FILE] [--format text|json]",
		Short: "rewrite the report of a finished run, and compare with real rows",
	}
	var o results.ReportOptions
	f := c.Flags()
	f.StringVar(&o.From, "from", "", "output `folder` of a finished run")
	f.StringVar(&o.Out, "out", "", "`folder` for the report (default: the run's)")
	f.StringVar(&o.Test, "test", "", "CSV or idx `file` of real rows to compare with; the report is then NOT PRIVATE")
	f.StringVar(&o.Train, "train", "",
		"CSV or idx `file` of the real rows used in the training: shows what models trained on them reach, and "+
			"whether synthetic rows are too close to them; needs --test")
	f.StringVar(&o.CoinFlips, "coin-flips", "",
		"`file` of synthetic rows or images of the same run with --votes coin, as a baseline; needs --test")
	format := cli.Format(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if o.From == "" {
			return cli.Misuse("--from: give the output folder of a finished run")
		}
		if (o.Train != "" || o.CoinFlips != "") && o.Test == "" {
			return cli.Misuse("--train and --coin-flips: also give real test rows with --test")
		}
		return makeReport(c.Context(), o, *format)
	}
	return c
}

func makeReport(ctx context.Context, o results.ReportOptions, format string) error {
	o.Warn = cli.Warn
	result, err := results.MakeReport(ctx, o)
	if err != nil {
		return cli.Interrupted(ctx, err, "interrupted; start the report again")
	}
	if format == "json" {
		return cli.PrintJSON(result)
	}
	fmt.Printf("%s: the certificate agrees with the ledger, (%g, %g)-DP, spent epsilon %.4f\n",
		result.Run, result.Epsilon, result.Delta, result.EpsilonSpent)
	fmt.Println(certificate.SpentNote)
	fmt.Printf("stated in the certificate, not proven by a ledger: %s\n", strings.Join(result.StatedNotProven, ", "))
	showUtility(result.Utility)
	if result.NotPrivate {
		fmt.Println("the report compares with real rows: NOT PRIVATE, keep it at the site")
	} else {
		fmt.Println("the report uses real rows only through the guarantee")
	}
	fmt.Println("files:")
	for _, name := range []string{"report", "report_md", "report_json"} {
		fmt.Println("  " + result.Outputs[name])
	}
	return nil
}
