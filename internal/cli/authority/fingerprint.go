package authority

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/cli"
)

// fingerprintCommand shows a certificate's key in the form that a masked run's members and a policy's peers use.
func fingerprintCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "fingerprint CERTIFICATE.crt [--format json]",
		Short: "show the name in a certificate and the fingerprint of its key",
		Args:  cli.AtMostOneArgument,
	}
	format := cli.Format(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cli.Misuse("give the file of a certificate")
		}
		raw, err := pemfile.Read(args[0])
		if err != nil {
			return err
		}
		all := pemfile.Certificates(raw)
		if len(all) == 0 {
			return fmt.Errorf("%s has no certificate; give a .crt file", args[0])
		}
		identity, err := certs.IdentityOf(all[0])
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		fingerprint, err := certs.Fingerprint(all[0].PublicKey)
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		if *format == "json" {
			return cli.PrintJSON(map[string]string{
				"role": string(identity.Role), "name": identity.Name, "fingerprint": fingerprint,
			})
		}
		fmt.Printf("%s\n%s\n", identity, certs.SpellFingerprint(fingerprint))
		return nil
	}
	return c
}
