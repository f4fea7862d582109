package authority

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/request"
	"github.com/conclave-dp/conclave/internal/cli"
)

// siteCommand is for sites that keep their own keys, and for their authority.
func siteCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "site COMMAND",
		Short: "request, approve, renew, revoke and list certificates of sites",
		Long: `Requests, approves, renews, revokes and lists certificates of sites.
A site uses request and install; the other commands are for the authority. A node's name is its site.`,
	}
	c.AddCommand(requestCommand(), installCommand(), approveCommand(), revokeCommand(), crlCommand(), listCommand())
	return c
}

func requestCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "request --dir DIR --site NAME [--role ROLE] [--hosts HOST,...] [--renew [--new-key]]",
		Short: "at a site: create a key and a request for the authority",
	}
	f := c.Flags()
	dir := f.String("dir", "", "`folder` of the site's key and certificate; created if needed")
	name := f.String("site", "", "name of the site, or of the student or aggregator")
	role := roleFlag(c, certs.RoleNode, "role of the certificate")
	hosts := hostsFlag(c)
	renew := f.Bool("renew", false, "request another certificate for the existing key")
	newKey := f.Bool("new-key", false, "with --renew: create a new key, which replaces the old one at install")
	format := cli.Format(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *dir == "" || *name == "" {
			return cli.Misuse("--dir and --site are required")
		}
		role := certs.Role(*role)
		if err := checkHosts(*hosts, role); err != nil {
			return err
		}
		choice := request.FirstKey
		switch {
		case *newKey && !*renew:
			return cli.Misuse("--new-key is for --renew only; a first request always creates a key")
		case *newKey:
			choice = request.NextKey
		case *renew:
			choice = request.SameKey
		}
		q, err := request.New(*dir, role, *name, *hosts, choice)
		if err != nil {
			return err
		}
		path := certs.FilesAtSite(*dir, role, *name).Request
		if *format == "json" {
			return cli.PrintJSON(map[string]string{"request": path, "fingerprint": q.Fingerprint})
		}
		fmt.Printf("%s\nfingerprint of the key: %s\n", path, certs.SpellFingerprint(q.Fingerprint))
		fmt.Fprintln(os.Stderr,
			"send the .csr file to the operator of the authority, and read out the fingerprint to them; the key "+
				"stays here")
		return nil
	}
	return c
}

func installCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "install --dir DIR --site NAME [--role ROLE] [--ca CA.crt] CERTIFICATE.crt",
		Short: "at a site: install the certificate next to its key",
		Args:  cli.AtMostOneArgument,
	}
	f := c.Flags()
	dir := f.String("dir", "", "`folder` of the site's key")
	name := f.String("site", "", "name of the site, or of the student or aggregator")
	role := roleFlag(c, certs.RoleNode, "role of the certificate")
	ca := f.String("ca", "", "the authority's certificate, required if the folder has none")
	format := cli.Format(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if *dir == "" || *name == "" || len(args) == 0 {
			return cli.Misuse("--dir, --site and the file of a certificate are required")
		}
		raw, err := os.ReadFile(args[0])
		if err != nil {
			return fmt.Errorf("read the certificate: %w", err)
		}
		var authority []byte
		if *ca != "" {
			if authority, err = os.ReadFile(*ca); err != nil {
				return fmt.Errorf("read the authority's certificate: %w", err)
			}
		}
		files, err := request.Install(*dir, certs.Role(*role), *name, raw, authority)
		if err != nil {
			return err
		}
		if *format == "json" {
			return cli.PrintJSON(files.Files)
		}
		fmt.Printf("%s\n%s\n%s\n", files.CA, files.Cert, files.Key)
		return nil
	}
	return c
}
