package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/conclave-dp/conclave/certs"
)

const siteUsage = `usage, at a site:
       conclave site request --dir DIR --site NAME [--role node|student|aggregator] [--hosts HOST,...] [--renew [--new-key]]
       conclave site install --dir DIR --site NAME [--role ROLE] [--ca CA.crt] CERTIFICATE.crt
where the authority is:
       conclave site approve --dir CA_DIR [--days N] [--site NAME] [--role ROLE] [--fingerprint HEX] REQUEST.csr
       conclave site revoke  --dir CA_DIR [--role ROLE] [--reason WORD] [--crl-days N] NAME | --serial HEX
       conclave site crl     --dir CA_DIR [--crl-days N]
       conclave site list    --dir CA_DIR
A node's name is its site.`

func site(ctx context.Context, args []string) error {
	return among(ctx, args, siteUsage, map[string]commandFunc{
		"request": requestCertificate, "install": installCertificate,
		"approve": approveRequest, "revoke": revokeCertificate, "crl": writeRevoked, "list": listCertificates,
	})
}

// operand takes the one argument that is no flag, wherever it stands.
func operand(f *flag.FlagSet, args []string) (name string, rest []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a, "-") || a == "-" {
			if name == "" {
				name = a
				continue
			}
			rest = append(rest, a) // parse complains
			continue
		}
		rest = append(rest, a)
		known := f.Lookup(strings.TrimLeft(a, "-"))
		if known == nil {
			continue
		}
		if b, ok := known.Value.(interface{ IsBoolFlag() bool }); (!ok || !b.IsBoolFlag()) && i+1 < len(args) {
			i++
			rest = append(rest, args[i])
		}
	}
	return name, rest
}

// roleFlag registers --role.
func roleFlag(f *flag.FlagSet, value, what string) *string {
	return f.String("role", value, what+": node, student or aggregator")
}

func checkRole(f *flag.FlagSet, role string) error {
	switch certs.Role(role) {
	case certs.RoleNode, certs.RoleStudent, certs.RoleAggregator:
		return nil
	}
	return misuse(f, "--role %q: use node, student or aggregator", role)
}

// days is a number of days as a duration; 0 where that is none.
func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

func requestCertificate(_ context.Context, args []string) error {
	f := flags("site request", "site request --dir DIR --site NAME [--role ROLE] [--hosts HOST,...] [--renew [--new-key]]")
	dir := f.String("dir", "", "folder of the site's key and certificate; made if needed")
	name := f.String("site", "", "name of the site, or of the student or aggregator")
	role := roleFlag(f, "node", "whom the certificate is for")
	hosts := f.String("hosts", "", "names and addresses an aggregator is dialled by, with commas")
	renew := f.Bool("renew", false, "ask for a further certificate, for the key that is there")
	newKey := f.Bool("new-key", false, "with --renew: make a new key, which install puts in the old one's place")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" || *name == "" {
		return misuse(f, "--dir and --site are needed")
	}
	if err := checkRole(f, *role); err != nil {
		return err
	}
	if *hosts != "" && *role != string(certs.RoleAggregator) {
		return misuse(f, "--hosts belongs to an aggregator, nobody dials a %s; leave it out", *role)
	}
	if *newKey && !*renew {
		return misuse(f, "--new-key belongs to --renew; a first request makes a key anyway")
	}
	choice := certs.FirstKey
	if *renew {
		choice = certs.SameKey
	}
	if *newKey {
		choice = certs.NextKey
	}
	var list []string
	if *hosts != "" {
		list = strings.Split(*hosts, ",")
	}
	q, err := certs.NewRequest(*dir, certs.Role(*role), *name, list, choice)
	if err != nil {
		return err
	}
	files := certs.FilesAtSite(*dir, certs.Role(*role), *name)
	if *format == "json" {
		return printJSON(map[string]string{"request": files.Request, "fingerprint": q.Fingerprint})
	}
	fmt.Printf("%s\nfingerprint of the key: %s\n", files.Request, certs.SpellFingerprint(q.Fingerprint))
	fmt.Fprintln(os.Stderr, "send the .csr file to whoever keeps the authority, and read the fingerprint out; the key stays here")
	return nil
}

func installCertificate(_ context.Context, args []string) error {
	f := flags("site install", "site install --dir DIR --site NAME [--role ROLE] [--ca CA.crt] CERTIFICATE.crt")
	dir := f.String("dir", "", "folder of the site's key")
	name := f.String("site", "", "name of the site, or of the student or aggregator")
	role := roleFlag(f, "node", "whom the certificate is for")
	ca := f.String("ca", "", "the authority's certificate, where the folder has none yet")
	format := formatFlag(f)
	path, args := operand(f, args)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" || *name == "" || path == "" {
		return misuse(f, "--dir, --site and the file of a certificate are needed")
	}
	if err := checkRole(f, *role); err != nil {
		return err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	var authority []byte
	if *ca != "" {
		if authority, err = os.ReadFile(*ca); err != nil {
			return fmt.Errorf("read the authority's certificate: %w", err)
		}
	}
	files, err := certs.Install(*dir, certs.Role(*role), *name, raw, authority)
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(certs.Files{CA: files.CA, Cert: files.Cert, Key: files.Key})
	}
	fmt.Printf("%s\n%s\n%s\n", files.CA, files.Cert, files.Key)
	return nil
}

func approveRequest(_ context.Context, args []string) error {
	f := flags("site approve", "site approve --dir CA_DIR [--days N] [--site NAME] [--role ROLE] [--fingerprint HEX] REQUEST.csr")
	dir := f.String("dir", "", "folder of the authority")
	length := f.Int("days", 365, "days the certificate is valid")
	name := f.String("site", "", "refuse a request of another name")
	role := roleFlag(f, "node", "refuse a request for another role")
	fingerprint := f.String("fingerprint", "", "refuse another key than the one that was read out; without it you are asked")
	out := f.String("out", "", "file for the certificate; by default beside the request, with .crt for .csr")
	yes := f.Bool("yes", false, "do not ask")
	format := formatFlag(f)
	path, args := operand(f, args)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" || path == "" {
		return misuse(f, "--dir and the file of a request are needed")
	}
	if *length < 1 || *length > maxDays {
		return misuse(f, "--days %d: use 1 to %d", *length, maxDays)
	}
	if err := checkRole(f, *role); err != nil {
		return err
	}
	if *out == "" {
		*out = strings.TrimSuffix(path, ".csr") + ".crt"
	}
	q, err := certs.ReadRequest(path)
	if err != nil {
		return err
	}
	switch {
	case *name != "" && q.Identity.Name != *name:
		return fmt.Errorf("the request is of %s, not of %q; do not approve it", q.Identity, *name)
	case string(q.Identity.Role) != *role:
		return fmt.Errorf("the request is of %s, not of a %s; if that is meant say --role %s", q.Identity, *role, q.Identity.Role)
	}
	if *fingerprint != "" {
		if err := q.CheckFingerprint(*fingerprint); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(*out); err == nil {
		return fmt.Errorf("%s: %w; name another file with --out", *out, certs.ErrExists)
	}
	fmt.Fprintf(os.Stderr, "request of   %s\n", q.Identity)
	if len(q.Hosts) > 0 {
		fmt.Fprintf(os.Stderr, "dialled by   %s\n", strings.Join(q.Hosts, ", "))
	}
	fmt.Fprintf(os.Stderr, "valid for    %d days\nfingerprint  %s\n", *length, certs.SpellFingerprint(q.Fingerprint))
	if *fingerprint == "" && !*yes {
		if err := confirm(); err != nil {
			return err
		}
	}
	issued, err := certs.Approve(*dir, q, days(*length))
	if err != nil {
		return err
	}
	if err := issued.SaveAs(*out); err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(struct {
			Cert string `json:"cert"`
			*certs.Issued
		}{*out, issued})
	}
	fmt.Println(*out)
	return nil
}

// confirm asks whether the fingerprint is the one that the site sees.
func confirm() error {
	fmt.Fprint(os.Stderr, "is this the fingerprint that the site reads out to you? yes or no: ")
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("not approved; answer yes, or give the fingerprint with --fingerprint")
	}
	return nil
}

func revokeCertificate(_ context.Context, args []string) error {
	f := flags("site revoke", "site revoke --dir CA_DIR [--role ROLE] [--reason WORD] [--crl-days N] NAME | --serial HEX")
	dir := f.String("dir", "", "folder of the authority")
	serial := f.String("serial", "", "revoke one certificate, by its serial; by default all valid ones of the name")
	role := f.String("role", "", "role of the name, where several have it: node, student or aggregator")
	reason := f.String("reason", certs.ReasonUnspecified, "why: "+strings.Join(certs.Reasons(), ", "))
	length := f.Int("crl-days", 0, "days after which the list must have been replaced; 0: as long as the authority lasts")
	format := formatFlag(f)
	name, args := operand(f, args)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" || (name == "") == (*serial == "") {
		return misuse(f, "--dir, and either a name or --serial, are needed")
	}
	if *role != "" {
		if err := checkRole(f, *role); err != nil {
			return err
		}
	}
	if *length < 0 || *length > maxDays {
		return misuse(f, "--crl-days %d: use 0 to %d", *length, maxDays)
	}
	revoked, err := certs.Revoke(*dir, certs.Revocation{
		Serial: *serial, Name: name, Role: certs.Role(*role), Reason: *reason, ListFor: days(*length),
	})
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(map[string]any{"list": certs.RevokedFile(*dir), "revoked": revoked})
	}
	for _, e := range revoked {
		fmt.Printf("revoked %s %s %s\n", e.Role, e.Name, e.Serial)
	}
	fmt.Println(certs.RevokedFile(*dir))
	fmt.Fprintln(os.Stderr, "copy the list to where tls.revoked of every role says, first of all to the aggregators; until then nothing changes")
	return nil
}

func writeRevoked(_ context.Context, args []string) error {
	f := flags("site crl", "site crl --dir CA_DIR [--crl-days N]")
	dir := f.String("dir", "", "folder of the authority")
	length := f.Int("crl-days", 0, "days after which the list must have been replaced; 0: as long as the authority lasts")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" {
		return misuse(f, "--dir: name the folder of the authority")
	}
	if *length < 0 || *length > maxDays {
		return misuse(f, "--crl-days %d: use 0 to %d", *length, maxDays)
	}
	info, err := certs.WriteList(*dir, days(*length))
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(info)
	}
	fmt.Printf("%s, %d certificates, until %s\n", info.Path, info.Revoked, info.Until.Format(time.DateOnly))
	return nil
}

func listCertificates(_ context.Context, args []string) error {
	f := flags("site list", "site list --dir CA_DIR")
	dir := f.String("dir", "", "folder of the authority")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" {
		return misuse(f, "--dir: name the folder of the authority")
	}
	all, err := certs.Inventory(*dir)
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(map[string]any{"certificates": append([]certs.Holding{}, all...)})
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "role\tname\tserial\tvalid until\tstate")
	for _, h := range all {
		until, state := "-", h.State
		if !h.NotAfter.IsZero() {
			until = h.NotAfter.Format(time.DateTime)
		}
		if h.State == certs.StateRevoked {
			state += fmt.Sprintf(" %s, %s", h.RevokedAt.Format(time.DateTime), h.Reason)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", dash(string(h.Role)), dash(h.Name), h.Serial, until, state)
	}
	return w.Flush()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
